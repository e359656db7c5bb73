/* generation_config.h - how the model's own generation_config.json wants it sampled. */
#ifndef TOOLS_CLIENT_GENERATION_CONFIG_H
#define TOOLS_CLIENT_GENERATION_CONFIG_H

#include "tools/client/request_options.h"

/* Fills what was not given from MODEL/generation_config.json. STATUS_NOT_FOUND: there is none. */
MUST_CHECK struct status generation_config_apply(const char *model,
                                                 struct request_options *options);

#endif
