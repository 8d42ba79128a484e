// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// startProber runs a prober in a network namespace that has only lo, and returns its lines.
func startProber(t *testing.T, targets []probe.Target) *bufio.Scanner {
	t.Helper()
	dir := t.TempDir()
	binary, file := filepath.Join(dir, "prober"), filepath.Join(dir, "targets.json")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	encoded, err := json.Marshal(probe.Targets{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, encoded, 0o644); err != nil {
		t.Fatal(err)
	}
	script := `ip link set lo up && exec "$0" --name a --interval 50ms --targets "$1"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script, binary, file)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	printed, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // the process ends with the thread that started it
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start in a network namespace: %v: run the tests as root", err)
	}
	timeout := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		timeout.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return bufio.NewScanner(printed)
}

// Denied probes to loopback addresses always arrive, so they must be counted.
func TestDeniedProbesThatArriveAreCounted(t *testing.T) {
	lines := startProber(t, []probe.Target{
		{Name: "a", Address: "127.0.0.1", Expect: probe.Allow},
		{Name: "b", Address: "127.0.0.1", Expect: probe.Deny},
		{Name: "c", Address: "::1", Expect: probe.Deny},
	})
	leaks := map[string]bool{} // by protocol and sender
	answered := map[probe.Protocol]int{}
	counted := map[string]bool{} // denied answers by address and protocol
	for lines.Scan() && (len(leaks) < 4 || len(answered) < 3 || len(counted) < 6) {
		var line probe.Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Pod != "a" || line.Time == 0 {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		for _, leak := range line.Leaks {
			from := leak.From
			if i := strings.LastIndex(from, ":"); i > 0 {
				from = from[:i] // without the port
			}
			leaks[string(leak.Proto)+" "+from] = true
		}
		for _, count := range line.Counts {
			if count.Answered > 0 && count.Expect == probe.Allow {
				answered[count.Proto] += count.Answered
			}
			if count.Answered > 0 && count.Expect == probe.Deny {
				counted[count.Address+string(count.Proto)] = true
			}
		}
	}
	for _, want := range []string{"udp a", "tcp a", "tcp 127.0.0.1", "tcp [::1]"} {
		if !leaks[want] {
			t.Errorf("no leak %q in %v", want, leaks)
		}
	}
	if len(answered) != 3 || len(counted) != 6 {
		t.Errorf("answered %v, denied and answered %v", answered, counted)
	}
}

func TestUnansweredProbesAreLost(t *testing.T) {
	now := time.Now()
	flow := probe.Flow{To: "b", Proto: probe.UDP, Expect: probe.Allow}
	denied := flow
	denied.Expect = probe.Deny
	at := func(seconds float64) time.Time { // before the limit if negative
		return now.Add(time.Duration(seconds*float64(time.Second)) - probe.AnswerLimit)
	}
	c := newClient("a", nil)
	f := &longLivedFlow{flow: flow, backend: "now", pending: []sent{
		{at: at(-5), sequence: 1, flow: flow, answered: true},
		{at: at(-4.9), sequence: 2, flow: flow, backend: "then"},
		{at: at(-4.5), sequence: 3, flow: flow, backend: "then"},
		{at: at(-4.4), sequence: 4, flow: denied},
		{at: at(-3), sequence: 5, flow: flow, backend: "now"},
		{at: at(1), sequence: 6, flow: flow},
		{at: at(1.5), sequence: 7, flow: flow, answered: true},
	}}
	c.sweepFlow(f, now)
	if len(f.pending) != 2 || f.pending[0].sequence != 6 {
		t.Errorf("pending: %+v", f.pending)
	}
	want := []probe.Loss{
		{Flow: flow, First: at(-4.9).UnixMilli(), Last: at(-4.5).UnixMilli(), Count: 2, Backend: "then"},
		{Flow: flow, First: at(-3).UnixMilli(), Last: at(-3).UnixMilli(), Count: 1, Backend: "now"},
	}
	if len(c.losses) != len(want) || c.losses[0] != want[0] || c.losses[1] != want[1] {
		t.Errorf("losses: %+v", c.losses)
	}
}
