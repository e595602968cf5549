/* SPDX-License-Identifier: Apache-2.0 */
/* Hangs in two processes, the second of them in a second thread with a name to look for. */
#include <pthread.h>
#include <unistd.h>

static void *wait_for_nothing(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    pthread_t thread;
    if (fork() == 0 && pthread_create(&thread, NULL, wait_for_nothing, NULL) == 0)
        pthread_join(thread, NULL);
    for (;;)
        pause();
}
