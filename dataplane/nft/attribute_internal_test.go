// SPDX-License-Identifier: Apache-2.0

package nft

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/policy"
)

// TestAttribute: a chain or set that the kernel refuses is reported for the objects that need it. A
// change that the applier did not accept is written again.
func TestAttribute(t *testing.T) { nfttest.EachForm(t, testAttribute) }

func testAttribute(t *testing.T, classes render.ClassesConfig) {
	r, err := render.New(render.Config{Classes: classes})
	require.NoError(t, err)
	pol := policy.Key{Kind: policy.KindPolicy, Name: "p"}
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Name: "web"}
	r.Update(dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{Key: pol, Policy: &dataplane.Policy{
			Tier: "t", Ingress: []dataplane.Rule{{ID: "r", Action: policy.Allow}},
		}},
		&dataplane.EndpointUpdate{Key: web, Endpoint: &dataplane.Endpoint{
			Interface: "way1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
			Ingress: []dataplane.TierPolicies{{Tier: "t", DefaultAction: policy.Deny, Policies: []policy.Key{pol}}},
		}},
	}})
	w := &writer{renderer: r}
	rules := "pol-ingress/p" // the chains of the policy
	if !classes.TestHook.HasChains() {
		rules = onlyChain(t, r, "outcome-ingress/")
	}
	refused := func(o applier.Object, chains ...string) error {
		return &applier.Error{Detail: "words", Err: &applier.ObjectError{
			Object: o, Chains: chains, Err: syscall.EINVAL,
		}}
	}
	for _, c := range []struct {
		name     string
		err      error
		keys     []policy.Key // the zero key: an error without an object
		accepted bool
	}{
		{"nothing", nil, nil, true},
		{"a policy's chain", refused(applier.Object{Kind: "chain", Name: rules}), []policy.Key{pol, web}, true},
		{
			"a set that it references", refused(applier.Object{Kind: "set", Name: "s4-x"}, rules),
			[]policy.Key{pol, web},
			true,
		},
		{"an endpoint's chain", refused(applier.Object{Kind: "chain", Name: "to/web"}), []policy.Key{web}, true},
		{"a shared chain", refused(applier.Object{Kind: "chain", Name: "output"}), []policy.Key{{}}, true},
		{"the whole change", &applier.Error{Err: syscall.EPERM}, []policy.Key{{}}, true},
		{"context is done", context.Canceled, []policy.Key{{}}, false},
		{
			"two", errors.Join(refused(applier.Object{Kind: "chain", Name: "to/web"}), errors.Join(errors.New("x"))),
			[]policy.Key{web, {}},
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs, accepted := w.attribute(c.err)
			require.Equal(t, c.accepted, accepted)
			var keys []policy.Key
			for _, err := range errs {
				var e *dataplane.ApplyError
				require.ErrorAs(t, err, &e)
				keys = append(keys, e.Object)
			}
			require.Equal(t, c.keys, keys)
		})
	}
}

// onlyChain returns the name of the only chain with this prefix.
func onlyChain(t *testing.T, r *render.Renderer, prefix string) (name string) {
	t.Helper()
	table, errs := r.Table()
	require.Empty(t, errs)
	for _, c := range table.Chains {
		if strings.HasPrefix(c.Name, prefix) {
			require.Empty(t, name)
			name = c.Name
		}
	}
	require.NotEmpty(t, name)
	return name
}
