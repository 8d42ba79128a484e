// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/render"
)

// accountingForms returns lookups with and without counters and the verdict log.
func accountingForms() []form {
	log := render.VerdictLog{Enabled: true, Group: 9}
	return []form{
		{name: "lookups", config: render.Config{}},
		{name: "counters", config: render.Config{Counters: true}},
		{name: "log", config: render.Config{VerdictLog: log}},
		{name: "log-read", config: render.Config{VerdictLog: log}},
	}
}

// BenchmarkCounters measures the cost of the first packet of a flow with counters and with the
// verdict log, beside only connection tracking. No process reads the log, except in the form
// log-read. All rules select the peer, each with its own port.
func BenchmarkCounters(b *testing.B) {
	c := &comparison{}
	base := newRig(b, "eth1", "way1")
	load(b, base.node, baselines()[1].table)
	rigs := []*rig{base}
	names := []string{"conntrack"}
	rows := []string{""}
	for _, n := range []int{1, 1000} {
		for _, f := range accountingForms() {
			r, _, _ := judged{policies: n, same: true}.program(b, f)
			if f.name == "log-read" {
				listenLog(b, r.node, 9, false).drain(b)
			}
			rigs, names, rows = append(rigs, r), append(names, f.name), append(rows, fmt.Sprintf("/policies=%d", n))
		}
	}
	pin(b)
	for i, r := range rigs {
		fresh, once := rigFlows(20_000), slices.Repeat(rigFlows(1), 20_000)
		c.flows(r, rows[i], names[i], r.frames(r.client, fresh), r.frames(r.client, once), once[0].dst)
	}
	c.run(b, sized(25, 3))
}

// drain reads all messages until the test ends.
func (s *logSocket) drain(tb testing.TB) {
	tb.Helper()
	require.NoError(tb, unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for buf := make([]byte, 1<<18); ; {
			_, _, _ = unix.Recvfrom(s.fd, buf, 0) // Lost messages and timeouts are ignored.
			select {
			case <-end:
				return
			default:
			}
		}
	}()
	tb.Cleanup(func() {
		close(end)
		<-ended
	})
}
