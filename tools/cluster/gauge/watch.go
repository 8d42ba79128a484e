// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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
	// stable is how long, besides answerLimit, all targets must have the wanted result.
	stable = time.Second
)

// target is one that is watched.
type target struct {
	address string
	mu      sync.Mutex
	// lastOld is when the last probe was sent that did not have the wanted result; zero: none.
	lastOld time.Time
	// firstNew is when the first probe after it was sent.
	firstNew time.Time
}

// watch probes targets, each time from another port, until all are denied or allowed as wanted.
func watch(ctx context.Context, args []string) (measure.Changes, error) {
	flags := newFlags("watch [FLAGS] ADDRESS...")
	until := flags.String("until", "denied", "the `result` to wait for: denied or allowed")
	interval := flags.Duration("interval", 50*time.Millisecond, "`time` between two probes of a target")
	limit := flags.Duration("time", time.Minute, "maximum `time` to watch")
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
		if !t.firstNew.IsZero() {
			changes[t.address] = measure.Change{LastOld: t.lastOld, FirstNew: t.firstNew}
		}
	}
	return changes, nil
}

// allChanged reports whether all targets have been changed for long enough.
func allChanged(targets []*target) bool {
	for _, t := range targets {
		t.mu.Lock()
		changed := !t.firstNew.IsZero() && time.Since(t.firstNew) > stable+answerLimit
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
		probes.Go(func() {
			sent := time.Now()
			t.record(sent, probe(t.address), allowed)
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// record records the result of a probe. Results may come out of order.
func (t *target) record(sent time.Time, answered, allowed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if answered != allowed {
		if sent.After(t.lastOld) {
			t.lastOld = sent
		}
		if !t.firstNew.After(t.lastOld) {
			t.firstNew = time.Time{}
		}
		return
	}
	if sent.After(t.lastOld) && (t.firstNew.IsZero() || sent.Before(t.firstNew)) {
		t.firstNew = sent
	}
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
