// place.h: a session as the place where a case of the evidence runs. Used by verify, tune and bench.
#ifndef CLATTN_TOOL_CLI_PLACE_H
#define CLATTN_TOOL_CLI_PLACE_H
#include "evidence/device/guarded.h"
#include "tool/cli/tool.h"

// With guard zones around every tensor. The session stays open while it is used.
struct place session_place(const session *s);
#endif
