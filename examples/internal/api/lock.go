// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// ErrRunning means that an agent holds the lock of a socket.
var ErrRunning = errors.New("an agent is running there already: stop it first, or give another --socket")

// lockRetry is the interval at which a starting agent tries again while a command holds the lock.
const lockRetry = 10 * time.Millisecond

// Lock takes the lock of a socket in shared mode. No agent can start until the caller closes the
// returned lock. A command holds the lock while it makes changes that otherwise only an agent
// makes. Several commands can hold it at once. Lock detects a running agent by the lock alone. So
// it also detects an agent that does not answer, for example a stopped one (SIGSTOP). The lock file
// is not removed.
//
// Errors: ErrRunning if an agent runs (Lock does not wait until the agent ends); errors of system
// calls.
func Lock(socket string) (io.Closer, error) {
	file, err := openLock(socket)
	if err != nil {
		return nil, err
	}
	if err := tryLock(file, syscall.LOCK_SH); err != nil {
		return nil, errors.Join(lockError(socket, err), file.Close())
	}
	return file, nil
}

// lockAgent takes the lock for an agent, which holds the lock until the agent ends. It waits until
// all commands have released the lock.
func lockAgent(ctx context.Context, socket string) (io.Closer, error) {
	file, err := openLock(socket)
	if err != nil {
		return nil, err
	}
	for {
		err := tryLock(file, syscall.LOCK_EX)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = tryLock(file, syscall.LOCK_SH) // fails if an agent has the lock, but not if commands have it
		}
		if err == nil {
			err = tryLock(file, syscall.LOCK_UN)
		}
		if err != nil {
			return nil, errors.Join(lockError(socket, err), file.Close())
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		}
	}
}

// openLock opens the file of a socket's lock. Only the owner of the file and root can open it.
// Therefore no other user can hold the lock.
func openLock(socket string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
}

// tryLock takes the lock, or returns an error at once if another process has it.
func tryLock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

func lockError(socket string, err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", socket, ErrRunning)
	}
	return fmt.Errorf("%s.lock: %w", socket, err)
}
