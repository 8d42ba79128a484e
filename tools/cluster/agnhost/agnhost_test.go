// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// describeScript prints how it was called, and ends with code 7.
	describeScript = `echo "real: $*"; env | sort; exit 7`
	// waitScript runs until SIGTERM, or until its input ends.
	waitScript = `trap 'echo stopped; exit 5' TERM; echo "real: $*"; env | sort; echo ready; read -r line; exit 6`

	started = "Started SCTP server"
)

func TestOtherCommandsAreLeftToTheRealAgnhost(t *testing.T) {
	n, folder := newNamespace(t), install(t, describeScript)
	for _, args := range []string{
		"connect 10.0.0.1:80 --timeout=1s --protocol=tcp", "connect --unknown", "porter", "netexec --http-port=80",
		"serve-hostname --tcp --http=false --port 80", "pause",
	} {
		code, out := n.start(t, folder, []string{"A=b"}, nil, strings.Fields(args)...).end(t)
		if code != 7 || !strings.Contains(out, "real: "+args+"\n") || !strings.Contains(out, "\nA=b\n") {
			t.Errorf("%s: exit code %d: %s", args, code, out)
		}
	}
}

func TestConnect(t *testing.T) {
	n, folder := newTopology(t), install(t, waitScript)
	// Two servers of one network namespace, as two containers of a pod.
	for _, environment := range [][]string{
		{"SERVE_SCTP_PORT_80=foo", "SERVE_SCTP_PORT_81=foo", "SERVE_SCTP_PORT_82=foo"},
		{"SERVE_SCTP_PORT_8080=foo"},
	} {
		n.server.start(t, folder, environment, nil, "porter").await(t, started)
	}
	netexec := n.server.start(t, folder, nil, nil, "netexec", "--sctp-port=83")
	netexec.await(t, started)

	for _, c := range []struct {
		name  string
		from  *namespace
		hosts []string
		port  string
		flags string
		code  int
		out   string
	}{
		{name: "first server", from: n.client, hosts: []string{server4, server6}, port: "80"},
		{name: "second server", from: n.client, hosts: []string{server4, server6}, port: "8080"},
		{name: "second address", from: n.client, hosts: []string{second4, second6}, port: "80"},
		{name: "service", from: n.client, hosts: []string{service4, service6}, port: "80"},
		{name: "own address", from: n.server, hosts: []string{server4, server6}, port: "80"},
		{name: "own service", from: n.server, hosts: []string{service4, service6}, port: "8080"},
		{name: "loopback", from: n.server, hosts: []string{"127.0.0.1", "::1"}, port: "80"},
		{name: "command", from: n.client, hosts: []string{server4, server6}, port: "83"},
		{
			name: "server ends", from: n.client, hosts: []string{server4, server6}, port: "83", flags: "--sctp-data=x",
			code: 1, out: "OTHER: EOF\n",
		},
		{name: "dropped", from: n.client, hosts: []string{server4, server6}, port: "81", code: 1, out: "TIMEOUT\n"},
		{
			name: "dropped service", from: n.client, hosts: []string{service4, service6}, port: "81",
			code: 1, out: "TIMEOUT\n",
		},
		{
			name: "rejected by ICMP", from: n.client, hosts: []string{server4, server6}, port: "82",
			code: 1, out: "TIMEOUT\n",
		},
		{
			name: "not served", from: n.client, hosts: []string{server4, server6, service4, service6}, port: "84",
			code: 1, out: "OTHER: connection refused\n",
		},
		{
			name: "no SCTP", from: n.server, hosts: []string{client4, client6}, port: "80",
			code: 1, out: "OTHER: protocol not available\n",
		},
		{
			name: "no timeout", from: n.client, hosts: []string{server4}, port: "80", flags: "--timeout=0s",
			code: 1, out: "TIMEOUT\n",
		},
		{name: "no such port", from: n.client, hosts: []string{server4}, port: "none", code: 1, out: "DNS: "},
	} {
		for _, host := range c.hosts {
			t.Run(c.name+" "+host, func(t *testing.T) {
				// A probe that must succeed may take long on a busy host; one that must not is
				// short.
				flags := map[bool]string{true: "--timeout=10s ", false: "--timeout=1s "}[c.code == 0] + c.flags
				args := []string{"connect", net.JoinHostPort(host, c.port), "--protocol=sctp"}
				args = append(args, strings.Fields(flags)...)
				code, out := c.from.start(t, folder, nil, nil, args...).end(t)
				if code != c.code || !strings.HasPrefix(out, c.out) || c.out == "" && out != "" {
					t.Fatalf("exit code %d: %q", code, out)
				}
			})
		}
	}
}

// TestConnectionTracking holds each state by dropping the packet that would end it, before the
// router tracks it.
func TestConnectionTracking(t *testing.T) {
	folder := install(t, waitScript)
	for _, c := range []struct{ drop, state, out string }{
		{drop: "init-ack", state: "CLOSED", out: "TIMEOUT\n"},
		{drop: "cookie-echo", state: "COOKIE_WAIT", out: "TIMEOUT\n"},
		{drop: "cookie-ack", state: "COOKIE_ECHOED", out: "TIMEOUT\n"},
		{drop: "abort", state: "ESTABLISHED"},
		{drop: "shutdown", state: "CLOSED"}, // drops nothing: the client's ABORT has ended it
	} {
		t.Run(c.state+" without "+c.drop, func(t *testing.T) {
			n := newTopology(t)
			for _, state := range []string{"closed", "cookie_wait", "cookie_echoed"} { // they are a few seconds
				n.router.set(t, "netfilter/nf_conntrack_sctp_timeout_"+state, "60")
			}
			n.router.rules(t, fmt.Sprintf(`table inet hold {
				chain prerouting { type filter hook prerouting priority raw; sctp chunk %s exists counter drop; }
			}`, c.drop))
			n.server.start(t, folder, []string{"SERVE_SCTP_PORT_80=foo"}, nil, "porter").await(t, started)
			for _, host := range []string{server4, server6} {
				timeout := map[bool]string{true: "--timeout=10s", false: "--timeout=1s"}[c.out == ""]
				args := []string{"connect", net.JoinHostPort(host, "80"), "--protocol=sctp", timeout}
				if _, out := n.client.start(t, folder, nil, nil, args...).end(t); out != c.out {
					t.Fatalf("got %q", out)
				}
			}
			entries := n.router.read(t, "/proc/thread-self/net/nf_conntrack")
			for _, family := range []string{"ipv4", "ipv6"} {
				if !hasLine(entries, family+" ", " sctp ", " "+c.state+" ") {
					t.Errorf("no entry of %s in state %s:\n%s", family, c.state, entries)
				}
			}
		})
	}
}

func hasLine(text string, parts ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(line, part)
		}
		if all {
			return true
		}
	}
	return false
}

// TestKernelAgreesOnTheChecksum compares with the kernel's connection tracking, which finds packets
// with another sum invalid.
func TestKernelAgreesOnTheChecksum(t *testing.T) {
	n := newTopology(t)
	n.router.rules(t, `table inet count {
		counter new { }
		counter invalid { }
		chain forward {
			type filter hook forward priority -10
			ct state new meta l4proto sctp counter name new
			ct state invalid meta l4proto sctp counter name invalid
		}
	}`)
	for _, host := range []string{server4, server6} {
		init := packet{
			source: 40000, destination: 80, chunks: []chunk{initiation{tag: 1, tsn: 1}.chunk(chunkInit, nil)},
		}.encode()
		n.client.do(t, func() error { return sendRaw(host, init) })
		init[8] ^= 1
		n.client.do(t, func() error { return sendRaw(host, init) })
	}
	for _, name := range []string{"new", "invalid"} {
		eventually(t, "2 packets are "+name, func() bool {
			return strings.Contains(n.router.run(t, "nft list counter inet count "+name), "packets 2 ")
		})
	}
}

func sendRaw(host string, payload []byte) error {
	network := "ip4:132"
	if strings.Contains(host, ":") {
		network = "ip6:132"
	}
	conn, err := net.Dial(network, host)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write(payload)
	return err
}

func TestPortIsClaimedOnce(t *testing.T) {
	n, folder := newNamespace(t), install(t, waitScript)
	n.start(t, folder, []string{"SERVE_SCTP_PORT_80=foo"}, nil, "porter").await(t, started)
	code, out := n.start(t, folder, []string{"SERVE_SCTP_PORT_80=foo"}, nil, "porter").end(t)
	if code != 1 || !strings.Contains(out, "address already in use") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

func TestMissingCapabilityIsNotATimeout(t *testing.T) {
	n, folder := newNamespace(t), install(t, waitScript)
	check(t, os.Chmod(filepath.Dir(folder), 0o755))
	check(t, os.Chmod(folder, 0o755))
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	code, out := n.start(t, folder, nil, nobody, "connect", "127.0.0.1:80", "--protocol=sctp", "--timeout=1s").end(t)
	if code != 1 || !strings.HasPrefix(out, "OTHER: raw socket: ") || !strings.Contains(out, "not permitted") {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

// TestRealAgnhostServesTheOtherProtocols also tests that signals reach it, and that its exit code
// is the program's.
func TestRealAgnhostServesTheOtherProtocols(t *testing.T) {
	n, folder := newNamespace(t), install(t, waitScript)
	for _, c := range []struct {
		args, environment, hidden string
		want                      []string
	}{
		{
			args: "porter", environment: "SERVE_SCTP_PORT_80=foo SERVE_TCP_PORT_80=bar", hidden: "SERVE_SCTP",
			want: []string{"real: porter\n", "SERVE_TCP_PORT_80=bar\n"},
		},
		{
			args: "netexec --sctp-port 81 --http-port=80", environment: "A=b", hidden: "--sctp",
			want: []string{"real: netexec --http-port=80\n", "A=b\n"},
		},
	} {
		p := n.start(t, folder, strings.Fields(c.environment), nil, strings.Fields(c.args)...)
		p.await(t, "ready")
		output := p.output.String()
		for _, want := range append(c.want, started) {
			if !strings.Contains(output, want) {
				t.Errorf("no %q: %s", want, output)
			}
		}
		if strings.Contains(output, c.hidden) {
			t.Errorf("the real agnhost got the part for SCTP: %s", output)
		}
		check(t, p.cmd.Process.Signal(syscall.SIGTERM))
		if code, out := p.end(t); code != 5 || !strings.Contains(out, "stopped") {
			t.Errorf("exit code %d: %s", code, out)
		}
	}
}

func TestExitCode(t *testing.T) {
	n := newNamespace(t)
	both := []string{"SERVE_SCTP_PORT_80=foo", "SERVE_TCP_PORT_80=bar"}
	for _, c := range []struct {
		name, script string
		environment  []string
		signal       syscall.Signal
		code         int
	}{
		{name: "child ends", script: "echo ready; exit 7", environment: both, code: 7},
		{name: "child is killed", script: "echo ready; kill -KILL $$", environment: both, code: 128 + 9},
		{name: "no child", environment: both[:1], signal: syscall.SIGTERM, code: 128 + 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := n.start(t, install(t, c.script), c.environment, nil, "porter")
			p.await(t, started)
			if c.signal != 0 {
				check(t, p.cmd.Process.Signal(c.signal))
			}
			if code, out := p.end(t); code != c.code {
				t.Fatalf("exit code %d, not %d: %s", code, c.code, out)
			}
		})
	}
}

// TestOrphansAreReaped runs the program as process 1 of a namespace. The child leaves an orphan
// behind, which ends when the named pipe is opened.
func TestOrphansAreReaped(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	check(t, syscall.Mkfifo(pipe, 0o600))
	folder := install(t, fmt.Sprintf(`sh -c 'read -r line <%s & exit 0'; echo ready; read -r line`, pipe))
	n := newNamespace(t)
	environment := []string{"SERVE_SCTP_PORT_80=foo", "SERVE_TCP_PORT_80=bar"}
	p := n.start(t, folder, environment, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}, "porter")
	p.await(t, "ready")
	children := func(want int) func() bool {
		return func() bool { return len(childrenOf(t, p.cmd.Process.Pid)) == want }
	}
	eventually(t, "it has a child and an orphan", children(2))
	check(t, os.WriteFile(pipe, []byte("end\n"), 0))
	eventually(t, "it has only the child", children(1))
	check(t, p.stdin.Close())
	if code, out := p.end(t); code != 1 {
		t.Fatalf("exit code %d: %s", code, out)
	}
}

// childrenOf returns the processes whose parent is pid, those that are not reaped yet included.
func childrenOf(t *testing.T, pid int) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	check(t, err)
	var children []string
	for _, stat := range stats {
		content, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		_, fields, _ := strings.Cut(string(content), ") ")
		if f := strings.Fields(fields); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			children = append(children, stat)
		}
	}
	return children
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
