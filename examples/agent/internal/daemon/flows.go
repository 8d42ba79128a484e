// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/flows"
	"github.com/wayleave/wayleave/dataplane/nft/nflog"
	"github.com/wayleave/wayleave/examples/agent/internal/metrics"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/nsthread"
)

// accounting is the sysctl with which the kernel counts the packets of connections.
const accounting = "/proc/sys/net/netfilter/nf_conntrack_acct"

const (
	// flowInterval is the time between two updates without requests. If the end of a connection was
	// missed, the connection stays for up to twice this time.
	flowInterval = time.Minute
	// flowAge is how old the counts in the answer to a request may be.
	flowAge = time.Second
	// flowRetry is the time after which counting is tried again.
	flowRetry = 5 * time.Second
)

// errNoFlows is the error of an agent that counts no flows.
var errNoFlows = errors.New("flows are not counted: set flows and verdict-log-group")

// flowCounter counts the flows of the node. It is safe for concurrent use.
type flowCounter struct {
	table *flows.Table

	missed   atomic.Uint64 // verdicts that did not fit the buffers of kernel or agent
	counting atomic.Bool

	mu      sync.Mutex  // held during a dump: neither verdicts nor metrics may wait for it
	conn    connections // nil while nothing is counted
	updated time.Time   // when the last successful update ended
}

// connections reads the connections of the kernel. *conntrack.Conn implements it.
type connections interface {
	flows.Source
	Close() error
}

func newFlowCounter() *flowCounter { return &flowCounter{table: flows.New(flows.Config{})} }

// countFlows counts the flows that a pipeline's rules log until ctx is done.
func (d *Daemon) countFlows(ctx context.Context, p *pipeline.Pipeline) {
	for ctx.Err() == nil {
		err := d.countLogged(ctx, p)
		if ctx.Err() != nil {
			return
		}
		d.logger.Warn("flows are not counted for now", "err", err, "retry_in", flowRetry)
		_ = pause(ctx, flowRetry) // the loop ends when ctx is done
	}
}

// countLogged counts flows until ctx is done or an error occurs.
func (d *Daemon) countLogged(ctx context.Context, p *pipeline.Pipeline) error {
	if err := enableAccounting(d.cfg.NetNS); err != nil {
		return err
	}
	conn, err := conntrack.Dial(conntrack.ConnConfig{NetNS: d.cfg.NetNS})
	if err != nil {
		return err
	}
	d.flows.use(conn)
	defer d.flows.use(nil)
	rules := newRuleCache()
	d.follow(rules) // before World is called, so that no update in between is missed
	defer d.unfollow(rules)
	rules.fill(p.World())
	l, err := d.taps.join(p.VerdictLog().Group)
	if err != nil {
		return err
	}
	defer d.taps.leave(l)
	return pipeline.Together(ctx,
		func(ctx context.Context) error {
			return conntrack.WatchEnded(ctx, conntrack.WatchConfig{
				NetNS: d.cfg.NetNS, Ended: d.flows.table.Ended, Missed: d.flows.table.Missed,
			})
		},
		func(ctx context.Context) error { return d.countEntries(ctx, p, rules, l) },
		d.flows.updates,
	)
}

// countEntries counts the entries that a listener receives.
func (d *Daemon) countEntries(ctx context.Context, p *pipeline.Pipeline, rules *ruleCache, l *listener) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.done:
			return l.err
		case <-rules.full:
			rules.age()
			rules.fill(p.World())
		case e := <-l.entries:
			d.flows.missed.Add(uint64(e.Missed))
			d.flows.table.Verdict(rules.flow(e))
		}
	}
}

// enableAccounting sets the sysctl accounting in a network namespace. The agent does not restore
// the former value, because another program may rely on the new one by then.
func enableAccounting(netNS int) error {
	set := func() error {
		value, err := os.ReadFile(accounting)
		if err == nil && strings.TrimSpace(string(value)) == "0" {
			err = os.WriteFile(accounting, []byte("1"), 0)
		}
		return err
	}
	if netNS == 0 {
		return set()
	}
	return nsthread.In(netNS, set)
}

// use replaces the source of updates, and closes the previous one.
func (c *flowCounter) use(conn connections) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.conn, c.updated = conn, time.Time{}
	c.counting.Store(conn != nil)
}

// updates calls update at each flowInterval, until ctx is done or an update fails.
func (c *flowCounter) updates(ctx context.Context) error {
	ticker := time.NewTicker(flowInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := c.update(ctx); err != nil {
				return err
			}
		}
	}
}

// update counts the packets of open connections, unless the last update was shortly before.
func (c *flowCounter) update(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.conn == nil:
		return errNoFlows
	case time.Since(c.updated) < flowAge:
		return nil
	}
	if err := c.table.Update(ctx, c.conn); err != nil {
		return err
	}
	c.updated = time.Now()
	return nil
}

// stats returns the metrics of flows; nil while they are not counted.
func (c *flowCounter) stats() *metrics.Flows {
	if !c.counting.Load() {
		return nil
	}
	return &metrics.Flows{Totals: c.table.Totals(), Stats: c.table.Stats(), MissedVerdicts: c.missed.Load()}
}

// flow returns the verdict that an nflog entry reports.
func (c *ruleCache) flow(e nflog.Entry) flows.Verdict {
	decision, by, _ := strings.Cut(e.Prefix, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	name := func(a netip.Addr) string {
		if name := c.endpointLocked(a); name != "" {
			return name
		}
		return a.String()
	}
	v := flows.Verdict{Tuple: flows.TupleOf(e), Length: e.Length}
	v.Source, v.Destination, v.Protocol, v.Port = name(e.Src), name(e.Dst), e.Protocol, e.DstPort
	v.Allowed = decision == "allow"
	r, ok := c.ruleLocked(by)
	if !ok {
		v.Reason = by
		return v
	}
	v.Policy, v.Direction, v.Rule = r.owner, r.policyType, r.index
	return v
}

// answerFlows answers with the current counts of flows.
func (d *Daemon) answerFlows(r *http.Request, _ *pipeline.Pipeline) (any, error) {
	if err := d.flows.update(r.Context()); err != nil {
		return nil, err
	}
	stats := d.flows.stats()
	if stats == nil {
		return nil, errNoFlows
	}
	all := api.Flows{
		Flows: []api.Flow{}, Connections: stats.Stats.Connections, Evicted: stats.Stats.Evicted,
		Uncounted: stats.Stats.Uncounted, MissedVerdicts: stats.MissedVerdicts, MissedEnds: stats.Stats.Missed,
	}
	for _, f := range d.flows.table.Flows() {
		all.Flows = append(all.Flows, apiFlow(f))
	}
	return all, nil
}

func apiFlow(f flows.Flow) api.Flow {
	out := api.Flow{
		Source: f.Source, Destination: f.Destination, Protocol: f.Protocol.String(), Port: f.Port, Decision: "deny",
		Reason: f.Reason, Connections: f.Connections, Packets: f.Packets, Bytes: f.Bytes,
		ReplyPackets: f.ReplyPackets, ReplyBytes: f.ReplyBytes, First: f.First, Last: f.Last,
	}
	if f.Allowed {
		out.Decision = "allow"
	}
	if f.Direction != "" {
		out.Policy, out.Direction, out.Rule = &f.Policy, strings.ToLower(string(f.Direction)), &f.Rule
	}
	return out
}
