// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

const (
	// defaultWorlds is the default of Harness.Worlds.
	defaultWorlds = 20
	// steps is the number of batches of a random world.
	steps = 3
	// updates is the number of updates in each batch after the first.
	updates = 20
	// maxProbes is the greatest number of packets after each batch of a random world.
	maxProbes = 120
	// maxShown is the greatest number of wrong verdicts that a failure shows.
	maxShown = 3
)

// judged has a dataplane and, as the reference, a Mirror. Both receive the same batches of a graph.
type judged struct {
	*node
	graph  *calcgraph.Graph
	mirror *dptest.Mirror
}

// startJudged opens a dataplane over a fresh kernel with an empty world. It returns nil if the
// harness has no Judge.
func (k kit) startJudged(t *testing.T) *judged {
	t.Helper()
	j := &judged{node: k.start(t), mirror: dptest.NewMirror()}
	if lacks(t, j.Judge != nil, "Harness.Judge") {
		return nil
	}
	var err error
	j.graph, err = calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	j.graph.InSync()
	return j
}

// play applies the batch of the updates to the dataplane and to the reference.
func (j *judged) play(t *testing.T, updates []policy.Update) {
	t.Helper()
	for _, u := range updates {
		j.graph.Update(u)
	}
	j.apply(t, j.graph.Flush())
}

// apply applies a batch to the dataplane and to the reference.
func (j *judged) apply(t *testing.T, b dataplane.Batch) {
	t.Helper()
	require.NoError(t, j.mirror.Play(b), "a bug of the kit: the contract does not allow the batch")
	require.NoError(t, j.node.apply(t, b), "apply:\n%s", b)
}

// wrong describes how the dataplane's verdict differs from the reference. It is empty if they
// agree.
func (j *judged) wrong(t *testing.T, p dptest.Packet) string {
	t.Helper()
	reference := j.mirror.Judge(p)
	want := reference.Allowed()
	got, err := j.Judge(p)
	require.NoError(t, err, "judge %s", describe(p))
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s\n  want %s, the dataplane has %s\n  egress: %s\n  ingress: %s\n",
		describe(p), word(want), word(got), explain(reference.Egress), explain(reference.Ingress))
}

// judgeCases compares verdicts with those of the cases.
func (k kit) judgeCases(t *testing.T) {
	if k.startJudged(t) == nil {
		return
	}
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { k.judgeCase(t, c) })
	}
}

// judgeCase runs the lines of a case. Each group of resources is one batch, and the packets below
// it are judged after the batch.
func (k kit) judgeCase(t *testing.T, c judgeCase) {
	j := k.startJudged(t)
	steps, err := c.parse(j.Interfaces)
	require.NoError(t, err)
	for _, s := range steps {
		if c.state != nil {
			j.apply(t, j.batchTo(c.state(j.Interfaces)))
		} else {
			j.play(t, s.updates)
		}
		for _, p := range s.packets {
			packet := j.located(p.packet)
			require.Equal(t, p.allowed, j.mirror.Judge(packet).Allowed(),
				"a bug of the kit: the case and the reference differ: %s\n%s", describe(packet), j.mirror.State())
			if wrong := j.wrong(t, packet); wrong != "" {
				t.Errorf("%s\nthe case:\n%s\nthe dataplane's desired state:\n%s", wrong, c.text, j.mirror.State())
				return
			}
		}
	}
}

// located returns the packet with its From and To: the endpoints that have its addresses.
func (j *judged) located(p dptest.Packet) dptest.Packet {
	owners := owners(j.mirror.State())
	p.From, p.To = owners[p.Src], owners[p.Dst]
	return p
}

// judgeWorlds compares verdicts with those of the reference in random worlds.
func (k kit) judgeWorlds(t *testing.T) {
	j := k.startJudged(t)
	if j == nil {
		return
	}
	n := j.Worlds
	if n < 1 {
		n = defaultWorlds
	}
	for seed := range uint64(n) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { k.judgeWorld(t, seed) })
	}
}

// judgeWorld judges packets after each batch of a random world.
func (k kit) judgeWorld(t *testing.T, seed uint64) {
	j := k.startJudged(t)
	gen, rng := newWorlds(seed, j.Interfaces), rand.New(rand.NewPCG(seed, 1))
	for step := range steps {
		j.play(t, nextBatch(gen, step))
		state := j.mirror.State()
		var wrong []string
		probes := newProber(rng, state).probes(maxProbes)
		for _, p := range probes {
			if w := j.wrong(t, p); w != "" {
				wrong = append(wrong, w)
			}
		}
		if len(wrong) > 0 {
			t.Errorf("seed %d, batch %d: %d of %d verdicts are wrong:\n%s\nthe dataplane's desired state:\n%s",
				seed, step, len(wrong), len(probes), strings.Join(wrong[:min(len(wrong), maxShown)], ""), state)
			return
		}
	}
}

// newWorlds returns the generator of a random world. Most of the worlds are open.
func newWorlds(seed uint64, interfaces [3]string) *worlds.Generator {
	return worlds.New(worlds.Config{
		Seed: seed, Policies: 16, Rules: 4, Interfaces: interfaces[:], Open: seed%4 != 3,
	})
}

// nextBatch returns the updates of a step: first a whole world, then changes of it.
func nextBatch(gen *worlds.Generator, step int) (batch []policy.Update) {
	if step == 0 {
		for _, r := range gen.World() {
			batch = append(batch, policy.Update{Key: r.Key(), Resource: r})
		}
		return batch
	}
	for range updates {
		batch = append(batch, gen.Update())
	}
	return batch
}

// owners returns the local endpoint that has each address.
func owners(s dptest.State) map[netip.Addr]policy.Key {
	out := map[netip.Addr]policy.Key{}
	for key, e := range s.Endpoints {
		for _, a := range e.Addresses {
			out[a] = key
		}
	}
	return out
}

// describe returns a packet in one line.
func describe(p dptest.Packet) string {
	var b strings.Builder
	switch {
	case p.Protocol.HasPorts():
		fmt.Fprintf(&b, "%s %s -> %s", p.Protocol,
			netip.AddrPortFrom(p.Src, p.SrcPort), netip.AddrPortFrom(p.Dst, p.DstPort))
	case p.Protocol == policy.ProtocolICMP, p.Protocol == policy.ProtocolICMPv6:
		fmt.Fprintf(&b, "%s %s -> %s type %d code %d", p.Protocol, p.Src, p.Dst, p.ICMPType, p.ICMPCode)
	default:
		fmt.Fprintf(&b, "%s %s -> %s", p.Protocol, p.Src, p.Dst)
	}
	if s := p.HeaderString(); s != "" {
		b.WriteString(" " + s)
	}
	if p.From != (policy.Key{}) {
		fmt.Fprintf(&b, " from %s", p.From)
	}
	if p.To != (policy.Key{}) {
		fmt.Fprintf(&b, " to %s", p.To)
	}
	return b.String()
}

// explain returns the decision in one direction, and the policy or profile that made it.
func explain(d dptest.Decision) string {
	if d.Action == "" {
		return "no endpoint"
	}
	return fmt.Sprintf("%s, by %s", d.Action, d.By)
}

func word(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}
