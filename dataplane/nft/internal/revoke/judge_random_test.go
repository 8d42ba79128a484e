// SPDX-License-Identifier: Apache-2.0

package revoke_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/owners"
	"github.com/wayleave/wayleave/dataplane/nft/internal/revoke"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

var worldFlags = nfttest.NewWorldFlags()

// judges applies the changes of a render.Renderer to an Evaluator, as the goroutine of a Revoker
// does.
type judges struct {
	renderer  *render.Renderer
	owners    *owners.Tracker
	evaluator *revoke.Evaluator
}

// uplink is a Finder for which all addresses without an endpoint are behind the uplink.
type uplink string

// Find returns the uplink.
func (u uplink) Find(netip.Addr) []revoke.Side { return []revoke.Side{{Interface: string(u)}} }

// newJudges returns judges before the first batch, on a node with one uplink.
func newJudges(uplinkName string, classes render.ClassesConfig) (*judges, error) {
	r, err := render.New(render.Config{Classes: classes})
	return &judges{r, owners.New(), newJudge(uplink(uplinkName))}, err
}

// step applies a batch, and returns the judge of the ruleset after it.
func (j *judges) step(b dataplane.Batch) (conntrack.Judge, error) {
	j.renderer.Update(b)
	j.owners.Update(b)
	err := j.evaluator.Apply(changeOf(j.renderer, j.owners))
	return j.evaluator.Clone().Judge, errors.Join(append(j.renderer.Errors(), err)...)
}

// apart gives each endpoint two addresses of its own.
func apart(s dptest.State) dptest.State {
	for i := range 3 {
		key := nfttest.EndpointKey(fmt.Sprintf("way%d", i))
		e := *s.Endpoints[key]
		e.Addresses = []netip.Addr{nfttest.AddrPool()[i], nfttest.AddrPool()[6+i]}
		s.Endpoints[key] = &e
	}
	return s
}

// flowOf returns the flow of a first packet, and the owners of its addresses.
func flowOf(p dptest.Packet) (dptest.Packet, *conntrack.Flow) {
	p.From, p.To = policy.Key{}, policy.Key{}
	for i := range 3 {
		for _, a := range []netip.Addr{nfttest.AddrPool()[i], nfttest.AddrPool()[6+i]} {
			if p.Src == a {
				p.From = nfttest.EndpointKey(fmt.Sprintf("way%d", i))
			}
			if p.Dst == a {
				p.To = nfttest.EndpointKey(fmt.Sprintf("way%d", i))
			}
		}
	}
	f := &conntrack.Flow{Original: conntrack.Tuple{
		Source: netip.AddrPortFrom(p.Src, p.SrcPort), Destination: netip.AddrPortFrom(p.Dst, p.DstPort),
		Protocol: uint8(p.Protocol), ICMPType: p.ICMPType, ICMPCode: p.ICMPCode,
	}}
	f.Reply = f.Original
	f.Reply.Source, f.Reply.Destination = f.Original.Destination, f.Original.Source
	return p, f
}

// Each judge of flows agrees with State.Judge of the state of its own ruleset, also after all later
// changes.
func TestJudgesOfRandomStates(t *testing.T) { nfttest.EachFormInParallel(t, testJudgesOfRandomStates) }

func testJudgesOfRandomStates(t *testing.T, classes render.ClassesConfig) {
	judged := map[conntrack.Verdict]int{}
	for _, seed := range worldFlags.Seeds(60, 60) {
		w := nfttest.NewWorld(seed, 7)
		judges, err := newJudges("eth0", nfttest.Bounded(classes, seed))
		require.NoError(t, err)
		at := dptest.NewState()
		var states []dptest.State
		var each []conntrack.Judge
		for range 4 {
			next := apart(w.State())
			judge, err := judges.step(dptest.Transition(at, next))
			require.NoError(t, err, "seed %d", seed)
			at, states, each = next, append(states, next), append(each, judge)
		}
		for range 150 {
			p, _ := w.Packet()
			p, flow := flowOf(p)
			if p.From == (policy.Key{}) && p.To == (policy.Key{}) {
				continue // no endpoint of this node is involved
			}
			for i, judge := range each {
				want := conntrack.Denied
				if states[i].Judge(p).Allowed() {
					want = conntrack.Allowed
				}
				for _, p.DSCP = range append(nfttest.DSCPs(), 20) { // the judge does not have the first packet's value
					if states[i].Judge(p).Allowed() != (want == conntrack.Allowed) {
						want = conntrack.Unknown
						break
					}
				}
				require.Equal(t, want, judge(flow), "seed %d, state %d: %s", seed, i, flow)
				judged[want]++
			}
		}
	}
	t.Logf(
		"%d allowed, %d denied, %d unknown", judged[conntrack.Allowed], judged[conntrack.Denied],
		judged[conntrack.Unknown],
	)
	require.Greater(t, min(judged[conntrack.Allowed], judged[conntrack.Denied]), 1000)
	require.Greater(t, judged[conntrack.Unknown], 300)
}
