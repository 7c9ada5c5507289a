// interrupt.h: Ctrl-C on work of many parts: the first ends it after the part at hand, so that what is there is kept; the
// second ends the program at once. Used by bench and tune.
#ifndef CLATTN_TOOL_CLI_INTERRUPT_H
#define CLATTN_TOOL_CLI_INTERRUPT_H
#include <stdbool.h>

void interrupt_catch(void);
bool interrupt_asked(void);
#endif
