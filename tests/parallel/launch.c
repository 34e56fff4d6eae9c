/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts a program as several replicas that speak through sockets.c: launch REPLICAS PROGRAM [ARGUMENT...]. As mpirun: where one
 * ends with a code that is not 0 or by a signal, the others are ended, and that code is the launch's. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 16 };

static void begin(int rank, int size, int sockets[MOST][MOST], char **command)
{
    char text[32], list[MOST * 12] = "";
    for (int i = 0; i < size; i++) {
        for (int k = 0; k < size && i != rank; k++)
            if (i != k)
                close(sockets[i][k]);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%d ", i == rank ? -1 : sockets[rank][i]);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("SOCKETS_OF_PEERS", list, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("SOCKETS_RANK", text, 1);
    snprintf(text, sizeof text, "%d", size);
    setenv("SOCKETS_SIZE", text, 1);
    execvp(command[0], command);
    fprintf(stderr, "launch: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

int main(int argc, char **argv)
{
    static int sockets[MOST][MOST];
    pid_t replicas[MOST];
    const int size = argc > 2 ? atoi(argv[1]) : 0;
    int result = 0, left = size;
    if (size < 1 || size > MOST) {
        fprintf(stderr, "usage: launch REPLICAS PROGRAM [ARGUMENT...], at most %d replicas\n", MOST);
        return 2;
    }
    for (int i = 0; i < size; i++)
        for (int k = 0; k < i; k++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
                perror("launch: socketpair");
                return 1;
            }
            sockets[i][k] = pair[0], sockets[k][i] = pair[1];
        }
    for (int i = 0; i < size; i++) {
        replicas[i] = fork();
        if (replicas[i] == 0)
            begin(i, size, sockets, argv + 2);
    }
    for (int i = 0; i < size; i++)
        for (int k = 0; k < size; k++)
            if (i != k)
                close(sockets[i][k]);
    while (left > 0) {
        int status;
        const pid_t ended = wait(&status);
        if (ended < 0 && errno == EINTR)
            continue;
        left--;
        for (int i = 0; i < size; i++)
            if (replicas[i] == ended)
                replicas[i] = 0;
        if (status == 0 || result != 0)
            continue;
        result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        usleep(300000); /* for what the others have to say */
        for (int i = 0; i < size; i++)
            if (replicas[i] > 0)
                kill(replicas[i], SIGKILL);
    }
    return result;
}
