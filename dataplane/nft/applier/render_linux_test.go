// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// endpoints returns two endpoints. The first allows only packets from the set s:fe, the other
// everything.
func endpoints() dataplane.Batch {
	web, open := policy.Key{Kind: policy.KindPolicy, Name: "web"}, policy.Key{Kind: policy.KindPolicy, Name: "open"}
	b := dataplane.Batch{Events: []dataplane.Event{
		&dataplane.IPSetUpdate{ID: "s:fe", Members: []dataplane.Member{{
			Prefix: netip.MustParsePrefix("192.0.2.7/32"),
		}}},
		&dataplane.PolicyUpdate{Key: web, Policy: &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
			{ID: "fe", Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:fe"}}},
		}}},
		&dataplane.PolicyUpdate{Key: open, Policy: &dataplane.Policy{
			Tier: "default", Ingress: []dataplane.Rule{{ID: "all", Action: policy.Allow}},
		}},
	}}
	for i, key := range []policy.Key{web, open} {
		b.Events = append(b.Events, &dataplane.EndpointUpdate{Key: workload(i), Endpoint: &dataplane.Endpoint{
			Interface: fmt.Sprintf("way%d", i), Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})},
			Ingress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
			}},
		}})
	}
	return b
}

func workload(i int) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Name: fmt.Sprintf("w%d", i)}
}

// reaches reports whether TCP from 192.0.2.7 to an endpoint passes a table.
func reaches(t *testing.T, table *ruleset.Table, endpoint int) bool {
	t.Helper()
	s, err := simulate.New(simulate.Config{Table: table})
	require.NoError(t, err)
	header := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 40000), 80)
	r, err := s.Run(ruleset.Forward, simulate.Packet{
		IIFName: "eth0", OIFName: fmt.Sprintf("way%d", endpoint), Protocol: 6,
		Transport: append(header, make([]byte, 16)...),
		Src:       netip.MustParseAddr("192.0.2.7"), Dst: netip.AddrFrom4([4]byte{10, 0, 0, byte(endpoint)}),
	}, simulate.Conn{State: ruleset.CtNew})
	require.NoError(t, err)
	return r.Verdict == ruleset.Accept
}

// If the kernel refuses a set, only the endpoints that need it drop, and the errors name their
// keys. Other changes are programmed meanwhile, and everything is once the kernel accepts the set.
// The test injects the refusal, because kernels refuse valid sets only for lack of memory.
func TestIsolateSetOfPolicy(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	r, err := render.New(render.Config{
		Table: tableName, Classes: nfttest.Chains(),
	})
	require.NoError(t, err)
	r.Update(endpoints())
	f.blame = func(batch []byte) (uint32, unix.Errno) {
		return messageWith(batch, unix.NFT_MSG_NEWSET, "s4-fe"), unix.ENOMEM
	}
	err = a.Update(bg, r.Flush())
	requireHeld(t, err, applier.Object{Kind: "set", Name: "s4-fe"}, "pol-ingress/web")
	require.Equal(
		t, []policy.Key{{Kind: policy.KindPolicy, Name: "web"}, workload(0)}, r.Affected(a.Held()[0].Chains...),
	)

	table, errs := r.Table()
	require.Empty(t, errs)
	require.True(t, reaches(t, table, 0))
	withoutSet := func() *ruleset.Table {
		table, _ := r.Table()
		closed := *findChain(table, "pol-ingress/web")
		closed.Rules = []ruleset.Rule{rule(drop, "held back: "+unix.ENOMEM.Error())}
		held := *table
		held.Chains = slices.Clone(table.Chains)
		held.Chains[slices.Index(held.Chains, findChain(table, closed.Name))] = &closed
		held.Sets = slices.DeleteFunc(slices.Clone(table.Sets), func(s *ruleset.Set) bool { return s.Name == "s4-fe" })
		return &held
	}
	requireLists(t, ns, withoutSet())
	require.False(t, reaches(t, withoutSet(), 0))
	require.True(t, reaches(t, withoutSet(), 1))

	r.Update(dataplane.Batch{Events: []dataplane.Event{&dataplane.EndpointRemove{Key: workload(1)}}})
	requireHeld(t, a.Update(bg, r.Flush()), applier.Object{Kind: "set", Name: "s4-fe"}, "pol-ingress/web")
	requireLists(t, ns, withoutSet())

	f.blame = nil
	require.NoError(t, a.Resync(bg))
	require.Empty(t, a.Held())
	table, _ = r.Table()
	requireLists(t, ns, table)
}
