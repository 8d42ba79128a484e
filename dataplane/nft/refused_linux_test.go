// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/policy"
)

// refusedRule is valid, but asks for more sets than the kernel takes in a rule, which is of at most 128 expressions.
func refusedRule(s dptest.State) dataplane.Rule {
	r := dataplane.Rule{ID: "wide", Action: policy.Allow}
	for i := range 200 {
		id := dataplane.IPSetID(fmt.Sprintf("s:wide%d", i))
		s.Sets[id] = members("192.0.2.7")
		r.Source.NotSets = append(r.Source.NotSets, id)
	}
	return r
}

// A policy whose chain the kernel refuses drops, and is reported with the endpoint that needs it; all others are programmed, by real packets. What
// comes afterwards is programmed beside it, and it works again as soon as it is mended. The refusal is the kernel's own.
func TestRefusedChain(t *testing.T) { nft.EachForm(t, testRefusedChain) }

func testRefusedChain(t *testing.T, classes nft.ClassesConfig) {
	web, way2 := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "web"}, endpointKey("way2")
	wide := policed()
	wide.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{refusedRule(wide)}}
	for name, before := range map[string]dptest.State{"at first": dptest.NewState(), "in a change": policed()} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			d := open(t, n.node, nft.RendererConfig{Classes: classes})
			if before.InSync {
				require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), before)))
			}
			require.Equal(t, []policy.Key{web, way2}, refused(t, d.Apply(t.Context(), dptest.Transition(before, wide))))
			require.Contains(t, list(t, n.node), "chain pol-ingress/test/web {\n\t\tdrop comment \"held back: invalid argument\"\n\t}")
			closed := wide.Clone()
			closed.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{ID: "closed", Action: policy.Deny}}}
			n.requireLike(t, closed, "held back")

			other := edit(wide, "way3", func(e *dataplane.Endpoint) { e.Egress = nil })
			require.Equal(t, []policy.Key{web, way2}, refused(t, d.Apply(t.Context(), dptest.Transition(wide, other))))
			n.requireLike(t, edit(closed, "way3", func(e *dataplane.Endpoint) { e.Egress = nil }), "another change")

			require.NoError(t, d.Apply(t.Context(), dptest.Transition(other, policed())))
			n.requireLike(t, policed(), "mended")
		})
	}
}

// The same holds where a process takes over from another, and for the one that mends it.
func TestRefusedRestart(t *testing.T) { nft.EachForm(t, testRefusedRestart) }

func testRefusedRestart(t *testing.T, classes nft.ClassesConfig) {
	web := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "web"}
	wide := policed()
	wide.Policies[web] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{refusedRule(wide)}}
	n := newNetwork(t)
	for range 2 {
		d := open(t, n.node, nft.RendererConfig{Classes: classes})
		require.Equal(t, []policy.Key{web, endpointKey("way2")}, refused(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), wide))))
	}
	d := open(t, n.node, nft.RendererConfig{Classes: classes})
	require.NoError(t, d.Apply(t.Context(), dptest.Transition(dptest.NewState(), policed())))
	n.requireLike(t, policed(), "mended by the next process")
}

// refused returns the objects that an error is about, each of which the kernel called invalid.
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
	return keys
}
