// SPDX-License-Identifier: Apache-2.0

package prove

import (
	"context"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// task is a step of the proof. Its packets share evaluations of policy.
type task struct {
	*prover
	ctx   context.Context
	found []comparison
	last  comparison // the comparison that was found last
	count int64
}

// checkEvery is the number of packets after which a task checks whether the context is done.
const checkEvery = 256

// run runs all tasks on all processors. It returns the first differences in the order of the tasks.
func (p *prover) run(ctx context.Context, cancel context.CancelCauseFunc) ([]comparison, error) {
	tasks := p.tasks()
	found := make([][]comparison, len(tasks))
	var next atomic.Int64
	var mu sync.Mutex
	done := 0
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tasks)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(tasks) || ctx.Err() != nil {
					return
				}
				t := &task{prover: p, ctx: ctx}
				err := tasks[i](t)
				p.packets.Add(t.count)
				found[i] = t.found
				mu.Lock()
				done++
				if err == nil {
					err = p.cfg.Progress(done, len(tasks))
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.Concat(found...), nil
}

// tasks returns the steps of the proof.
func (p *prover) tasks() (tasks []func(*task) error) {
	for _, g := range p.groups {
		for _, name := range p.interfaces {
			tasks = append(
				tasks,
				func(t *task) error { return t.sent(g, end{iface: name}) },
				func(t *task) error { return t.received(g, end{iface: name}) },
			)
		}
		tasks = append(
			tasks, func(t *task) error { return t.withHost(g) }, func(t *task) error { return t.between(g) },
		)
	}
	for _, name := range p.interfaces {
		tasks = append(tasks, func(t *task) error { return t.hostInterface(end{iface: name}) })
	}
	return tasks
}

// compare runs a packet through the table. If the result differs from c.want, it records the
// packet.
func (t *task) compare(c *comparison) error {
	if t.count++; t.count%checkEvery == 0 && t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	allowed, _, err := t.simulate(c, false)
	if err != nil || allowed == c.want {
		return err
	}
	t.different.Add(1)
	l := &t.last
	same := l.from == c.from && l.to == c.to && l.src == c.src && l.dst == c.dst
	if !same && len(t.found) < t.cfg.Limit {
		t.found = append(t.found, *c)
	}
	t.last = *c
	return nil
}

// wanted caches verdicts of policy, by the transport and the classes into which policy puts the
// addresses.
type wanted map[wantedKey]bool

type wantedKey struct {
	src, dst int
	transport
}

// get returns the cached verdict for the key. If there is none, it evaluates policy.
func (w wanted) get(key wantedKey, evaluate func() bool) bool {
	if want, ok := w[key]; ok {
		return want
	}
	if len(w) > maxWanted {
		clear(w)
	}
	want := evaluate()
	w[key] = want
	return want
}

// maxWanted limits the memory of a task.
const maxWanted = 1 << 16

// ofFamily calls do with each class of addresses of a family.
func (p *prover) ofFamily(v6 int, do func(n int, a netip.Addr) error) error {
	for n, c := range p.classes {
		if family(c.addr) != v6 {
			continue
		}
		if err := do(n, c.addr); err != nil {
			return err
		}
	}
	return nil
}

// exchange compares packets between the members of a group and one address of the given class. The
// function setEnds sets the two ends of a packet. The result is a packet that policy allows, if
// there is one.
func (t *task) exchange(
	g *group, list []transport, known wanted, class int, setEnds func(*comparison, *policy.WorkloadEndpoint),
) (allowed *comparison, err error) {
	for _, x := range list {
		c := comparison{transport: x}
		setEnds(&c, g.members[0])
		c.want = known.get(wantedKey{src: class, transport: x}, func() bool { return t.evaluate(g.eval, &c) })
		if c.want && allowed == nil {
			sample := c
			allowed = &sample
		}
		for _, m := range g.members {
			setEnds(&c, m)
			if err := t.compare(&c); err != nil {
				return nil, err
			}
		}
	}
	return allowed, nil
}

// sent compares the packets from the members of a group to all addresses, and packets from false
// sources.
func (t *task) sent(g *group, to end) error {
	var sample [2]*comparison // an allowed packet of each family
	for i, own := range g.members[0].Addresses {
		v6, known := family(own), wanted{}
		list := g.out.transports(v6 == 1)
		err := t.ofFamily(v6, func(n int, peer netip.Addr) error {
			c, err := t.exchange(g, list, known, g.class[n], func(c *comparison, m *policy.WorkloadEndpoint) {
				c.from, c.to, c.src, c.dst = end{workload: m}, to, m.Addresses[i], peer
			})
			if sample[v6] == nil {
				sample[v6] = c
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for v6 := range sample {
		if err := t.falseSources(g, to, v6, sample[v6]); err != nil {
			return err
		}
	}
	return nil
}

// falseSources compares packets whose source is not an address of the endpoint. The parameter
// sample is a packet that policy allows from an address of the endpoint, so that only the source is
// wrong. It is nil if policy allows none.
func (t *task) falseSources(g *group, to end, v6 int, sample *comparison) error {
	if sample == nil { // policy allows nothing from here, so the destination does not matter
		sample = &comparison{to: to, dst: t.anyAddress(v6), transport: g.out.transports(v6 == 1)[0]}
	}
	known := wanted{}
	return t.ofFamily(v6, func(n int, src netip.Addr) error {
		for _, m := range g.members {
			if slices.Contains(m.Addresses, src) || t.ofBridge(m, src) {
				continue
			}
			c := *sample
			c.from, c.src = end{workload: m}, src
			key := wantedKey{src: -1}
			if inNets(m.AllowSpoofedSourcePrefixes, src) {
				key.src = n
			}
			c.want = known.get(key, func() bool { return t.evaluate(g.eval, &c) })
			if err := t.compare(&c); err != nil {
				return err
			}
		}
		return nil
	})
}

// ofBridge reports whether a packet with the source, from the interface of a bridged endpoint, is
// not a packet of that endpoint. This is so if another endpoint of the bridge has the address. The
// function also reports true for the endpoint's AllowSpoofedSourcePrefixes, because at a bridge the
// table drops packets from these, whatever policy says.
func (p *prover) ofBridge(m *policy.WorkloadEndpoint, src netip.Addr) bool {
	bridge := p.cfg.Bridges[m.Interface]
	if bridge == "" {
		return false
	}
	return inNets(m.AllowSpoofedSourcePrefixes, src) ||
		slices.ContainsFunc(p.locals, func(o *policy.WorkloadEndpoint) bool {
			return p.cfg.Bridges[o.Interface] == bridge && slices.Contains(o.Addresses, src)
		})
}

func inNets(nets policy.Nets, a netip.Addr) bool {
	return slices.ContainsFunc(nets, func(n netip.Prefix) bool { return n.Contains(a) })
}

// anyAddress returns an ordinary address of a family.
func (p *prover) anyAddress(v6 int) netip.Addr {
	unusual := special()
	for _, c := range p.classes {
		if family(c.addr) == v6 &&
			!slices.ContainsFunc(unusual, func(n netip.Prefix) bool { return n.Contains(c.addr) }) {
			return c.addr
		}
	}
	return [2]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}[v6]
}

// received compares the packets from all addresses to the members of a group.
func (t *task) received(g *group, from end) error {
	for i, own := range g.members[0].Addresses {
		v6, known := family(own), wanted{}
		list := g.in.transports(v6 == 1)
		err := t.ofFamily(v6, func(n int, peer netip.Addr) error {
			_, err := t.exchange(g, list, known, g.class[n], func(c *comparison, m *policy.WorkloadEndpoint) {
				c.from, c.to, c.src, c.dst = from, end{workload: m}, peer, m.Addresses[i]
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// withHost compares the packets between the members of a group and the node itself.
func (t *task) withHost(g *group) error {
	for i, own := range g.members[0].Addresses {
		v6 := family(own)
		out := slices.DeleteFunc(g.out.transports(v6 == 1), transport.dhcp)
		in := g.in.transports(v6 == 1)
		for _, host := range t.own[v6] {
			class := g.class[t.index[host]]
			_, err := t.exchange(g, out, wanted{}, class, func(c *comparison, m *policy.WorkloadEndpoint) {
				c.from, c.src, c.dst = end{workload: m}, m.Addresses[i], host
			})
			if err != nil {
				return err
			}
			_, err = t.exchange(g, in, wanted{}, class, func(c *comparison, m *policy.WorkloadEndpoint) {
				c.to, c.src, c.dst = end{workload: m}, host, m.Addresses[i]
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// dhcp reports whether a packet to the node is a DHCP packet.
func (x transport) dhcp() bool {
	return x.protocol == policy.ProtocolUDP && (x.sport == 68 && x.dport == 67 || x.sport == 546 && x.dport == 547)
}

// between compares the packets from the members of a group to all other endpoints of the node. The
// decisions of the sender's policy and of the receiver's policy do not depend on each other. So
// each decision is evaluated with the policies of the endpoint's own group.
func (t *task) between(g *group) error {
	egress := wanted{}
	for _, to := range t.groups {
		ingress := wanted{}
		both := newMentions().union(g.out, to.in)
		lists := [2][]transport{both.transports(false), both.transports(true)}
		for _, sender := range g.members {
			for _, receiver := range to.members {
				if sender == receiver {
					continue
				}
				c := comparison{from: end{workload: sender}, to: end{workload: receiver}}
				if err := t.pair(g, to, c, lists, egress, ingress); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pair compares the packets from one endpoint to another.
func (t *task) pair(from, to *group, c comparison, lists [2][]transport, egress, ingress wanted) error {
	for i, src := range c.from.workload.Addresses {
		for j, dst := range c.to.workload.Addresses {
			if family(src) != family(dst) {
				continue
			}
			c.src, c.dst = src, dst
			for _, x := range lists[family(src)] {
				c.transport = x
				sends := wantedKey{src: i, dst: from.class[t.index[dst]], transport: x}
				receives := wantedKey{src: to.class[t.index[src]], dst: j, transport: x}
				c.want = egress.get(sends, func() bool {
					t.evaluations.Add(1)
					return from.eval.Evaluate(t.flow(&c)).Egress != verdict.Deny
				}) && ingress.get(receives, func() bool {
					t.evaluations.Add(1)
					return to.eval.Evaluate(t.flow(&c)).Ingress != verdict.Deny
				})
				if err := t.compare(&c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// hostInterface compares the packets of an interface of the host: to the node, from the node, and
// forwarded ones. One of their addresses is of every class.
func (t *task) hostInterface(at end) error {
	known := map[[2]end]wanted{}
	one := func(c comparison, src, dst int) error {
		ends := [2]end{c.from, c.to}
		if known[ends] == nil {
			known[ends] = wanted{}
		}
		for _, x := range t.hosts.out.transports(c.src.Is6()) {
			c.transport = x
			key := wantedKey{src, dst, x}
			c.want = known[ends].get(key, func() bool { return t.evaluate(t.hosts.eval, &c) })
			if err := t.compare(&c); err != nil {
				return err
			}
		}
		return nil
	}
	for v6 := range t.own {
		fixed := t.anyAddress(v6)
		err := t.ofFamily(v6, func(n int, peer netip.Addr) error {
			class := t.hosts.class[n]
			for _, host := range t.own[v6] {
				own := t.hosts.class[t.index[host]]
				if err := one(comparison{from: at, src: peer, dst: host}, class, own); err != nil {
					return err
				}
				if err := one(comparison{to: at, src: host, dst: peer}, own, class); err != nil {
					return err
				}
			}
			for _, name := range t.interfaces {
				out := end{iface: name}
				if err := one(comparison{from: at, to: out, src: peer, dst: fixed}, class, -1); err != nil {
					return err
				}
				if err := one(comparison{from: at, to: out, src: fixed, dst: peer}, -1, class); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
