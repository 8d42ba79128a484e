// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// apart gives each endpoint two addresses of its own.
func apart(s dptest.State) dptest.State {
	for i := range 3 {
		key := endpoint(fmt.Sprintf("way%d", i))
		e := *s.Endpoints[key]
		e.Addresses = []netip.Addr{addrPool()[i], addrPool()[6+i]}
		s.Endpoints[key] = &e
	}
	return s
}

// flowOf returns a packet as the first of a flow, from and to whose addresses they are.
func flowOf(p dptest.Packet) (dptest.Packet, *conntrack.Flow) {
	p.From, p.To = policy.Key{}, policy.Key{}
	for i := range 3 {
		for _, a := range []netip.Addr{addrPool()[i], addrPool()[6+i]} {
			if p.Src == a {
				p.From = endpoint(fmt.Sprintf("way%d", i))
			}
			if p.Dst == a {
				p.To = endpoint(fmt.Sprintf("way%d", i))
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

// The judges of flows agree with the judgement on the states that the rulesets were made from, each with its own, when
// all changes are behind.
func TestJudgesOfRandomStates(t *testing.T) { nfttest.EachFormInParallel(t, testJudgesOfRandomStates) }

func testJudgesOfRandomStates(t *testing.T, classes render.ClassesConfig) {
	judged := map[conntrack.Verdict]int{}
	for _, seed := range worldSeeds(60) {
		w := world{rand.New(rand.NewPCG(seed, 7))}
		judges, err := nft.NewJudges("eth0", bounded(classes, seed))
		require.NoError(t, err)
		at := dptest.NewState()
		var states []dptest.State
		var each []conntrack.Judge
		for range 4 {
			next := apart(w.state())
			judge, err := judges.Step(dptest.Transition(at, next))
			require.NoError(t, err, "seed %d", seed)
			at, states, each = next, append(states, next), append(each, judge)
		}
		for range 150 {
			p, _ := w.packet()
			p, flow := flowOf(p)
			if p.From == (policy.Key{}) && p.To == (policy.Key{}) {
				continue // no endpoint of this node is involved
			}
			for i, judge := range each {
				want := conntrack.Denied
				if states[i].Judge(p).Allowed() {
					want = conntrack.Allowed
				}
				for _, p.DSCP = range append(dscps(), 20) { // the judge does not know the first packet's
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
