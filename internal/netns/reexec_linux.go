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

// marker tells a process that it is the one in the user namespace, so that there is no third.
const marker = "WAYLEAVE_IN_USER_NAMESPACE=1"

// EnsureRoot makes sure that the process may make and change network namespaces. A process that has
// the rights (CAP_SYS_ADMIN and CAP_NET_ADMIN) gets ran == false and goes on. Any other has its
// program run once more, with the same arguments, environment and standard files, as root of a new
// user and network namespace; once that has ended, ran is true and code is its exit code, for
// os.Exit. Signals are passed on to it.
//
// An error means that neither is possible here, as where user namespaces are switched off.
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
		GidMappingsEnableSetgroups: false, // an ordinary user may not map groups otherwise
		Pdeathsig:                  syscall.SIGKILL,
	}
	return runChild(cmd)
}

// runChild starts cmd, passes signals on to it and waits.
func runChild(cmd *exec.Cmd) (ran bool, code int, err error) {
	// The child dies with the thread that started it, so that thread has to stay.
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
				// Errors mean that the child has just ended.
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
		return true, 128 + int(status.Signal()), nil // as a shell does
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
	const want = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN // both below 32
	return data[0].Effective&want == want
}
