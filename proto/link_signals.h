/* link_signals.h - the poller's view of signals: inside proto/ only. See link_catch_signals(). */
#ifndef PROTO_LINK_SIGNALS_H
#define PROTO_LINK_SIGNALS_H

/* Readable after a signal, until drained; -1 when signals are not caught. */
int link_signals_fd(void);
void link_signals_drain(void);

#endif
