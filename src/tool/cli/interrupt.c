// interrupt.c: see interrupt.h.
#include "tool/cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked;

static void note(int signal_number) {
    (void)signal_number;
    asked = 1;
}

#ifdef _WIN32
void interrupt_catch(void) {
    asked = 0;
    (void)signal(SIGINT, note); // which Windows takes back as it comes
}
#else
// A signal that the parent has switched off, as nohup and shells' background jobs do, stays so.
void interrupt_catch(void) {
    struct sigaction now, own = {.sa_handler = note, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    asked = 0;
    if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaction(SIGINT, &own, NULL);
}
#endif

bool interrupt_asked(void) {
    return asked != 0;
}
