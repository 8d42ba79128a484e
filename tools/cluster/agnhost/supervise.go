// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// forwarded are the signals that the child gets too.
func forwarded() []os.Signal {
	return []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGCONT, syscall.SIGWINCH,
	}
}

// ends reports whether a signal ends a program that does nothing about it, if it is one of those
// forwarded.
func ends(s syscall.Signal) bool {
	return s != syscall.SIGCONT && s != syscall.SIGWINCH
}

// child is a program to run with this program's open files. A nil *child means none.
type child struct {
	program           string
	args, environment []string
}

// notices delivers this process's signals from its creation on.
type notices struct {
	signals, died chan os.Signal
}

func newNotices() notices {
	// One SIGCHLD may be for many children, and one is enough in the channel.
	n := notices{signals: make(chan os.Signal, 16), died: make(chan os.Signal, 1)}
	signal.Notify(n.signals, forwarded()...)
	signal.Notify(n.died, syscall.SIGCHLD)
	return n
}

func (n notices) stop() {
	signal.Stop(n.signals)
	signal.Stop(n.died)
}

// supervise runs the child until it ends, and returns its exit code, or 128 plus the number of the
// signal that ended it. Without a child it waits for a signal that ends it. It forwards signals to
// the child and reaps all children that this process has or inherits. If failed yields an error
// first, it kills the child and returns that error.
func supervise(c *child, n notices, failed <-chan error) (int, error) {
	pid := -1
	if c != nil {
		var err error
		pid, err = syscall.ForkExec(c.program, c.args, &syscall.ProcAttr{Env: c.environment, Files: []uintptr{0, 1, 2}})
		if err != nil {
			return 0, fmt.Errorf("run %s: %w", c.program, err)
		}
	}
	for {
		select {
		case s := <-n.signals:
			number, ok := s.(syscall.Signal)
			switch {
			case !ok:
			case pid > 0:
				// The child may have ended, but it is not reaped yet: the number is not used again.
				_ = syscall.Kill(pid, number)
			case ends(number):
				return 128 + int(number), nil
			}
		case <-n.died:
			if code, ended := reap(pid); ended {
				return code, nil
			}
		case err := <-failed:
			if pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				waitFor(pid)
			}
			return 0, err
		}
	}
}

// reap collects all processes that have ended, and returns the exit code of the given one if it is
// among them.
func reap(pid int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || got <= 0:
			return code, ended
		case got == pid && (status.Exited() || status.Signaled()):
			code, ended = exitCode(status), true
		}
	}
}

// waitFor collects one process that has been killed.
func waitFor(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
