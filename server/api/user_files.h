/* The uploads of a user, for struct auth. */
#ifndef BARKER_SERVER_API_USER_FILES_H
#define BARKER_SERVER_API_USER_FILES_H

struct auth;
struct data_root;

/* The root must outlive the last change of a user. */
void user_files_use(struct auth *auth, const struct data_root *root);

#endif
