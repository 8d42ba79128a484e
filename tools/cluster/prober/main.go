// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

func main() {
	name := flag.String("name", "", "`name` of the pod")
	targets := flag.String("targets", "", "`file` of the targets, read again whenever it changes; no file: no targets")
	interval := flag.Duration("interval", 20*time.Millisecond, "`time` between two probes of a long-lived flow")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *name, *targets, *interval); err != nil {
		fmt.Fprintln(os.Stderr, "prober:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, targets string, interval time.Duration) error {
	if name == "" || interval <= 0 {
		return fmt.Errorf("needs --name, and an --interval above 0")
	}
	addresses, err := ownAddresses()
	if err != nil {
		return err
	}
	out := &printer{pod: name}
	leaks := &leakCounter{}
	if err := serve(name, leaks); err != nil {
		return err
	}
	if err := countDeniedTCP(leaks); err != nil {
		return err
	}
	out.print(probe.Line{Addresses: addresses})
	c := newClient(name, out)
	go reportLeaks(ctx, leaks, out)
	c.run(ctx, targets, interval)
	return nil
}

// printer prints lines. It is safe for concurrent use.
type printer struct {
	pod string
	mu  sync.Mutex
}

func (p *printer) print(line probe.Line) {
	line.Time, line.Pod = time.Now().UnixMilli(), p.pod
	encoded, err := json.Marshal(line)
	if err != nil {
		panic(err) // a Line has no values that JSON lacks
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = os.Stdout.Write(append(encoded, '\n'))
}

// reportLeaks prints leaks at once, in one line a second, and overflows.
func reportLeaks(ctx context.Context, leaks *leakCounter, out *printer) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var overflows int
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if found := leaks.drain(); len(found) > 0 {
			out.print(probe.Line{Leaks: found})
		}
		if now := socketOverflows(); now > overflows {
			out.print(probe.Line{Overflows: now - overflows})
			overflows = now
		}
	}
}

// ownAddresses returns the addresses of the pod that other pods reach.
func ownAddresses() ([]string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			out = append(out, network.IP.String())
		}
	}
	return out, nil
}

// socketOverflows returns how many datagrams the kernel dropped because a socket's buffer was full.
func socketOverflows() int {
	total := 0
	if content, err := os.ReadFile("/proc/net/snmp6"); err == nil {
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "Udp6RcvbufErrors" {
				n, _ := strconv.Atoi(fields[1])
				total += n
			}
		}
	}
	content, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return total
	}
	var names []string
	for line := range bytes.Lines(content) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "Udp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "RcvbufErrors" && i < len(fields) {
				n, _ := strconv.Atoi(fields[i])
				total += n
			}
		}
	}
	return total
}
