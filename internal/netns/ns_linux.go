// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/nsthread"
)

// NS is a handle of a network namespace. The namespace exists while the handle is open, or a
// process, thread or socket is in it. An NS is safe for concurrent use.
type NS struct {
	file *os.File
}

// New makes an empty network namespace whose loopback interface is up. In this namespace, IPv6
// addresses can be used at once, without duplicate address detection, and router advertisements are
// ignored.
func New() (*NS, error) {
	var n *NS
	err := nsthread.Throwaway(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("netns: make network namespace: %w", err)
		}
		// Not /proc/self, which is the main thread in another namespace.
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return fmt.Errorf("netns: open network namespace: %w", err)
		}
		n = &NS{file: file}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := n.prepare(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// prepare sets the sysctls and the loopback as New describes.
func (n *NS) prepare() error {
	for _, name := range []string{"accept_dad", "accept_ra", "router_solicitations"} {
		err := n.SetSysctl("net/ipv6/conf/default/"+name, "0")
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the kernel has no IPv6
			return err
		}
	}
	return n.Up("lo")
}

// FD returns the file descriptor of the namespace, valid until Close.
func (n *NS) FD() int { return int(n.file.Fd()) }

// Close closes the handle.
func (n *NS) Close() error { return n.file.Close() }

// Do runs fn in the namespace, on a new goroutine and thread, and returns its error. Sockets that
// fn opens and processes that fn starts stay in the namespace. Goroutines that fn starts do not run
// in it. If fn ends with runtime.Goexit, as a failing test does, Do returns an error.
func (n *NS) Do(fn func() error) error {
	defer runtime.KeepAlive(n)
	return nsthread.In(n.FD(), fn)
}

// Sysctl reads /proc/sys/name in the namespace, without the newline. The name is a path, such as
// "net/ipv4/conf/eth0/forwarding".
func (n *NS) Sysctl(name string) (value string, err error) {
	err = n.Do(func() error {
		data, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			return fmt.Errorf("netns: read sysctl: %w", err)
		}
		value = strings.TrimSpace(string(data))
		return nil
	})
	return value, err
}

// SetSysctl writes /proc/sys/name in the namespace.
func (n *NS) SetSysctl(name, value string) error {
	return n.Do(func() error {
		// Without O_CREATE: a missing sysctl is an error.
		file, err := os.OpenFile(filepath.Join("/proc/sys", name), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("netns: write sysctl: %w", err)
		}
		_, err = file.WriteString(value)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("netns: write sysctl: %w", err)
		}
		return nil
	})
}

// netlink calls fn with a handle whose socket is in the namespace.
func (n *NS) netlink(fn func(*netlink.Handle) error) error {
	var h *netlink.Handle
	err := n.Do(func() (err error) {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return fmt.Errorf("netns: open netlink: %w", err)
	}
	defer h.Close()
	return fn(h)
}
