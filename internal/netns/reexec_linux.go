// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// marker is an environment variable. A process that has it is in the user namespace, and does not
// start another one.
const marker = "WAYLEAVE_IN_USER_NAMESPACE=1"

// EnsureRoot makes sure that the program can make and change network namespaces. If this process
// has the rights (CAP_SYS_ADMIN and CAP_NET_ADMIN), ran is false. Otherwise, EnsureRoot runs the
// program once more, with the same arguments, environment and standard files, as root of a new user
// and network namespace. It forwards signals to the new process, and returns when that process has
// ended. Then ran is true, and code is the exit code for os.Exit.
//
// EnsureRoot returns an error if this process has no rights and the program cannot be run as root
// of a user namespace. For example, user namespaces may be disabled.
func EnsureRoot() (ran bool, code int, err error) {
	if privileged() {
		return false, 0, nil
	}
	for _, entry := range os.Environ() {
		if entry == marker {
			return false, 0, errors.New("netns: no rights even in a user namespace")
		}
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), marker)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		GidMappingsEnableSetgroups: false, // otherwise, an ordinary user must not map groups
		Pdeathsig:                  syscall.SIGKILL,
	}
	return runChild(cmd)
}

// runChild starts cmd, forwards signals and waits.
func runChild(cmd *exec.Cmd) (ran bool, code int, err error) {
	// The child ends when the thread that started it ends, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return false, 0, fmt.Errorf("netns: make user namespace: %w", err)
	}
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-ended:
				return
			case s := <-signals:
				// An error means that the child has just ended.
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-passed

	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, 0, nil
	case !errors.As(err, &exit):
		return false, 0, fmt.Errorf("netns: wait for the program: %w", err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return true, 128 + int(status.Signal()), nil // like a shell
	}
	return true, exit.ExitCode(), nil
}

// privileged reports whether the process has both capabilities.
func privileged() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	const want = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN // both are below 32
	return data[0].Effective&want == want
}
