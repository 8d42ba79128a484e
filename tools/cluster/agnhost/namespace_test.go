// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limit bounds each wait of the tests.
const limit = 20 * time.Second

// namespace is a network namespace of the test. Its thread ends with the test, and the namespace
// with the thread and the processes that were started in it.
type namespace struct {
	thread int
	calls  chan func()
}

func newNamespace(t *testing.T) *namespace {
	t.Helper()
	n := &namespace{calls: make(chan func())}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		n.thread = syscall.Gettid()
		started <- syscall.Unshare(syscall.CLONE_NEWNET)
		for call := range n.calls {
			call()
		}
	}()
	t.Cleanup(func() { close(n.calls) })
	if err := <-started; err != nil {
		t.Fatalf("network namespace: %v: run the tests as root", err)
	}
	n.run(t, "ip link set lo up")
	n.set(t, "ipv6/conf/default/accept_dad", "0") // or addresses are of use only after a second
	return n
}

// do calls a function on the namespace's thread.
func (n *namespace) do(t *testing.T, call func() error) {
	t.Helper()
	result := make(chan error)
	n.calls <- func() { result <- call() }
	check(t, <-result)
}

// run runs commands in the namespace, one in each line, and returns their output.
func (n *namespace) run(t *testing.T, lines string) string {
	t.Helper()
	var output strings.Builder
	for line := range strings.Lines(lines) {
		if args := strings.Fields(line); len(args) > 0 {
			n.do(t, func() error {
				out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%s: %w: %s", line, err, out)
				}
				output.Write(out)
				return nil
			})
		}
	}
	return output.String()
}

// set sets a parameter of the namespace, below /proc/sys/net.
func (n *namespace) set(t *testing.T, name, value string) {
	t.Helper()
	n.do(t, func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
}

// rules loads an nft script.
func (n *namespace) rules(t *testing.T, script string) {
	t.Helper()
	n.do(t, func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}

// read returns a file as it is in the namespace.
func (n *namespace) read(t *testing.T, path string) string {
	t.Helper()
	var content []byte
	n.do(t, func() (err error) {
		content, err = os.ReadFile(path)
		return err
	})
	return string(content)
}

// process is the program under test.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // of stdout and stderr
	output bytes.Buffer
	code   int // valid when lines is closed
}

// start starts agnhost in a folder that install has made.
func (n *namespace) start(
	t *testing.T, folder string, environment []string, attr *syscall.SysProcAttr, args ...string,
) *process {
	t.Helper()
	p := &process{cmd: exec.Command(filepath.Join(folder, "agnhost"), args...), lines: make(chan string, 1000)}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	p.cmd.SysProcAttr = attr
	out, in, err := os.Pipe()
	check(t, err)
	p.cmd.Stdout, p.cmd.Stderr = in, in
	p.stdin, err = p.cmd.StdinPipe()
	check(t, err)
	n.do(t, p.cmd.Start)
	check(t, in.Close())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		scanner := bufio.NewScanner(out)
		for scanner.Scan() {
			p.lines <- scanner.Text()
		}
		_ = out.Close()
		var exit *exec.ExitError
		if err := p.cmd.Wait(); errors.As(err, &exit) {
			p.code = exit.ExitCode()
		}
		close(p.lines)
	}()
	t.Cleanup(func() {
		_ = p.stdin.Close() // the program of realScript ends with its input
		_ = p.cmd.Process.Kill()
		<-ended
	})
	return p
}

// await waits until a line of output contains a text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(limit)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("the program ended with exit code %d before %q: %s", p.code, text, p.output.String())
			}
			fmt.Fprintln(&p.output, line)
			if strings.Contains(line, text) {
				return
			}
		case <-timeout:
			t.Fatalf("no %q within %v: %s", text, limit, p.output.String())
		}
	}
}

// end waits until the program ends. It returns the exit code and what it has written since the last
// await.
func (p *process) end(t *testing.T) (int, string) {
	t.Helper()
	var rest strings.Builder
	timeout := time.After(limit)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return p.code, rest.String()
			}
			rest.WriteString(line + "\n")
		case <-timeout:
			t.Fatalf("the program still runs after %v: %s", limit, rest.String())
		}
	}
}

// install builds agnhost into a folder, with a script in the place of the real one.
func install(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	out, err := exec.Command("go", "build", "-o", filepath.Join(folder, "agnhost"), ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	check(t, os.WriteFile(filepath.Join(folder, "agnhost.real"), []byte("#!/bin/sh\n"+script), 0o700))
	return folder
}

// topology is a client and a server with a router between, which has connection tracking.
type topology struct {
	client, router, server *namespace
}

const (
	client4, client6   = "10.1.0.2", "2001:db8:1::2"
	server4, server6   = "10.2.0.2", "2001:db8:2::2"
	second4, second6   = "10.2.0.3", "2001:db8:2::3" // of the server too, but never the source by default
	service4, service6 = "10.9.0.1", "2001:db8:9::1" // the router translates it to the server's address
)

func newTopology(t *testing.T) topology {
	t.Helper()
	n := topology{client: newNamespace(t), router: newNamespace(t), server: newNamespace(t)}
	n.router.set(t, "ipv4/ip_forward", "1")
	n.router.set(t, "ipv6/conf/all/forwarding", "1")
	for number, end := range map[string]*namespace{"1": n.client, "2": n.server} {
		n.router.run(t, strings.NewReplacer("N", number, "THREAD", strconv.Itoa(end.thread)).Replace(`
			ip link add ethN type veth peer name eth0 netns THREAD
			ip addr add 10.N.0.1/24 dev ethN
			ip addr add 2001:db8:N::1/64 dev ethN nodad
			ip link set ethN up`))
		end.run(t, strings.ReplaceAll(`
			ip addr add 10.N.0.2/24 dev eth0
			ip addr add 2001:db8:N::2/64 dev eth0 nodad
			ip link set eth0 up
			ip route add default via 10.N.0.1
			ip -6 route add default via 2001:db8:N::1`, "N", number))
	}
	n.server.run(t, `
		ip addr add 10.2.0.3/32 dev eth0
		ip addr add 2001:db8:2::3/128 dev eth0 nodad preferred_lft 0`)
	n.router.rules(t, `
		table inet test {
			chain forward {
				type filter hook forward priority 0
				ct state established,related counter accept
				ct state invalid counter drop
				sctp dport 81 counter drop
				sctp dport 82 counter reject
			}
			chain services {
				type nat hook prerouting priority -100
				ip daddr 10.9.0.1 dnat ip to 10.2.0.2
				ip6 daddr 2001:db8:9::1 dnat ip6 to 2001:db8:2::2
			}
			chain sources {
				type nat hook postrouting priority 100
				ct status dnat masquerade fully-random
			}
		}`)
	return n
}
