// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"golang.org/x/sys/unix"
)

const (
	serverMode = "WAYLEAVE_TEST_ETCD"      // the process is an etcd server
	inside     = "WAYLEAVE_TEST_NAMESPACE" // the process is in its own namespaces
)

// TestMain runs the tests in new network and mount namespaces. So they use no port of the machine,
// nothing outside reaches the servers, and a test may mount file systems. The same binary is also
// the etcd server, so that a test can kill the process of a server.
func TestMain(m *testing.M) {
	if os.Getenv(serverMode) != "" {
		etcdmain.Main(os.Args)
		os.Exit(0)
	}
	if os.Getenv(inside) == "" {
		os.Exit(enter())
	}
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "loopback:", err)
		os.Exit(1)
	}
	code := m.Run()
	deadline := time.Now().Add(waitTimeout)
	for leaked() != "" && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if stacks := leaked(); stacks != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "leaked goroutines:\n"+stacks)
		code = 1
	}
	os.Exit(code)
}

// enter runs the program once more in new namespaces, and returns its exit code.
func enter() int {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID, // with this process, all its servers end
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the child ends with the thread that started it
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(1, exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "the tests need root or user namespaces:", err)
		return 1
	}
	return 0
}

// loopbackUp sets the loopback interface of the new network namespace up, and separates its mounts
// from the machine's.
func loopbackUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

func leaked() string {
	buffer := make([]byte, 1<<20)
	var found []string
	for _, stack := range strings.Split(string(buffer[:runtime.Stack(buffer, true)]), "\n\n") {
		if strings.Contains(stack, "wayleave/datastore/etcd.") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
