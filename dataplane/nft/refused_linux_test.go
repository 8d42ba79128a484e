// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// refusedRule is valid, but looks up the receiver in more sets than the kernel accepts in a rule:
// at most 128 expressions.
func refusedRule(s dptest.State) dataplane.Rule {
	r := dataplane.Rule{ID: "wide", Action: policy.Allow}
	for i := range 200 {
		id := dataplane.IPSetID(fmt.Sprintf("s:wide%d", i))
		s.Sets[id] = members("192.0.2.7", "2001:db8::7")
		r.Destination.NotSets = append(r.Destination.NotSets, id)
	}
	return r
}

// If the kernel refuses the chain of a policy, packets of its endpoints drop, and the policy and
// these endpoints are reported. All other objects are programmed, also by later batches. The policy
// works again once it is corrected. The test sends real packets, and the kernel itself refuses the
// chain.
func TestRefusedChain(t *testing.T) { nfttest.EachFormInParallel(t, testRefusedChain) }

func testRefusedChain(t *testing.T, classes render.ClassesConfig) {
	web, way2 := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "web"}, endpointKey("way2")
	wide := policed()
	wide.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{refusedRule(wide)}}
	atFault := []policy.Key{web, way2}
	if !classes.TestHook.HasChains() { // the chain has the rules of the profile as well
		atFault = []policy.Key{web, {Kind: policy.KindProfile, Name: "all"}, way2}
	}
	for name, before := range map[string]dptest.State{"at first": dptest.NewState(), "in a change": policed()} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			d := open(t, n.node, render.Config{Classes: classes})
			if before.InSync {
				require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), before)))
			}
			require.Equal(t, atFault, refused(t, d.Apply(t.Context(), dptest.Transition(before, wide))))
			require.Regexp(t, `chain (pol-ingress/test/web|outcome-ingress/\w+) {\n\t\t`+
				`drop comment "held back: invalid argument"\n\t}`, list(t, n.node))
			closed := wide.Clone()
			closed.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
				ID: "closed", Action: policy.Deny,
			}}}
			n.requireLike(t, closed, "held back")

			other := edit(wide, "way3", func(e *dataplane.Endpoint) { e.Egress = nil })
			require.Equal(t, atFault, refused(t, d.Apply(t.Context(), dptest.Transition(wide, other))))
			n.requireLike(t, edit(closed, "way3", func(e *dataplane.Endpoint) { e.Egress = nil }), "another change")

			require.NoError(t, d.Apply(t.Context(), dptest.Transition(other, policed())))
			n.requireLike(t, policed(), "corrected")
		})
	}
}

// The same holds if another process adopts the table. A third process programs the corrected
// policy.
func TestRefusedRestart(t *testing.T) { nfttest.EachForm(t, testRefusedRestart) }

func testRefusedRestart(t *testing.T, classes render.ClassesConfig) {
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "web"}
	wide := policed()
	wide.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{refusedRule(wide)}}
	n := newNetwork(t)
	for range 2 {
		d := open(t, n.node, render.Config{Classes: classes})
		require.Subset(
			t, refused(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), wide))),
			[]policy.Key{web, endpointKey("way2")},
		)
		require.NoError(t, d.Close())
	}
	d := open(t, n.node, render.Config{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), policed())))
	n.requireLike(t, policed(), "corrected by the next process")
}

// refused returns the objects of an error, in order. The kernel's error for each is EINVAL.
func refused(t *testing.T, err error) (keys []policy.Key) {
	t.Helper()
	require.ErrorIs(t, err, unix.EINVAL)
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
	for _, one := range joined.Unwrap() {
		var failed *dataplane.ApplyError
		require.ErrorAs(t, one, &failed)
		require.ErrorIs(t, failed, unix.EINVAL)
		keys = append(keys, failed.Object)
	}
	slices.SortFunc(keys, policy.Key.Compare)
	return slices.Compact(keys) // there may be a chain for each family
}
