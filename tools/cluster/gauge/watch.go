// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/measure"
)

const (
	// answerLimit is how long a probe waits for its answer.
	answerLimit = 500 * time.Millisecond
	// stable is how long all targets must have been changed.
	stable = time.Second
)

// target is one that is watched.
type target struct {
	address string
	mu      sync.Mutex
	// answered and unanswered are when the last probe was sent with that result; zero: none.
	answered, unanswered time.Time
	// first is when the first probe was sent after the last one with the other result than the wanted.
	first time.Time
}

// watch probes targets, each time from another port, until all are denied or allowed as wanted.
func watch(ctx context.Context, args []string) (measure.Changes, error) {
	flags := flag.NewFlagSet("gauge watch", flag.ContinueOnError)
	until := flags.String("until", "denied", "the `result` to wait for: denied or allowed")
	interval := flags.Duration("interval", 50*time.Millisecond, "`time` between two probes of a target")
	limit := flags.Duration("time", time.Minute, "how `long` to watch at most")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *until != "denied" && *until != "allowed" || *interval <= 0 || flags.NArg() == 0 {
		return nil, fmt.Errorf("watch: needs --until denied or allowed, an --interval above 0, and addresses")
	}
	var targets []*target
	for _, arg := range flags.Args() {
		address, err := netip.ParseAddr(arg)
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		targets = append(targets, &target{address: address.String()})
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	var probes sync.WaitGroup
	for _, t := range targets {
		probes.Go(func() { t.watch(ctx, *interval, *until == "allowed", &probes) })
	}
	for ctx.Err() == nil && !allChanged(targets) {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	cancel()
	probes.Wait()
	changes := measure.Changes{}
	for _, t := range targets {
		if !t.first.IsZero() {
			changes[t.address] = measure.Change{Last: *t.before(*until == "allowed"), First: t.first}
		}
	}
	return changes, nil
}

// allChanged reports whether all targets have been changed for long enough.
func allChanged(targets []*target) bool {
	for _, t := range targets {
		t.mu.Lock()
		changed := !t.first.IsZero() && time.Since(t.first) > stable+answerLimit
		t.mu.Unlock()
		if !changed {
			return false
		}
	}
	return true
}

func (t *target) watch(ctx context.Context, interval time.Duration, allowed bool, probes *sync.WaitGroup) {
	select { // so that the probes of all targets are spread evenly
	case <-ctx.Done():
		return
	case <-time.After(rand.N(interval)):
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		probes.Go(func() {
			sent := time.Now()
			t.note(sent, probe(t.address), allowed)
		})
	}
}

// note records the result of a probe. Results may come out of order.
func (t *target) note(sent time.Time, answered, allowed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	other := t.before(allowed)
	if answered != allowed {
		if sent.After(*other) {
			*other = sent
		}
		if !t.first.After(*other) {
			t.first = time.Time{}
		}
		return
	}
	if sent.After(*other) && (t.first.IsZero() || sent.Before(t.first)) {
		t.first = sent
	}
}

// before returns when the last probe was sent whose result was not as wanted.
func (t *target) before(allowed bool) *time.Time {
	if allowed {
		return &t.unanswered
	}
	return &t.answered
}

// probe reports whether the target echoes a datagram.
func probe(address string) bool {
	conn, err := net.Dial("udp", net.JoinHostPort(address, fmt.Sprint(measure.UDPPort)))
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(answerLimit))
	if _, err := conn.Write([]byte("probe")); err != nil {
		return false
	}
	_, err = conn.Read(make([]byte, 64))
	return err == nil
}
