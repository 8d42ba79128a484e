// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/policy"
)

// S167: a rule that does not decode is closed and reported with its file. The policy is not
// removed.
func TestDirKeepsPoliciesInDoubt(t *testing.T) {
	f := newFolder(t)
	f.write("1.json", `{"kind":"Policy","name":"p","ingress":[{"action":"Allow"},{"action":"Deny",`+
		`"protocol":"TCP","destination":{"ports":[80,99999]}}]}`)
	f.write("2.json", `{"kind":"Policy","name":"q","selectr":"all()","ingress":[{"action":"Deny"}]}`)
	dir, err := datastore.NewDir(f.config)
	require.NoError(t, err)
	got := &world{resources: map[policy.Key]policy.Resource{}, inSync: make(chan struct{})}
	stop := start(t, dir, got)
	<-got.inSync
	require.ErrorIs(t, stop(), context.Canceled)
	f.expectRejected(
		"1.json: policy: in doubt: Policy/p: ingress[1].destination.ports[1]: want a number from 1 to 65535, not 99999",
	)
	f.expectRejected("2.json: policy: decode Policy/q: selectr: unknown field")
	f.expectNoRejection()
	require.Len(t, got.resources, 1)
	p := got.resources[policy.Key{Kind: policy.KindPolicy, Name: "p"}].(*policy.Policy)
	require.Len(t, p.Ingress, 2)
	closed := p.Ingress[1]
	closed.Doubts = nil
	require.Equal(t, policy.Rule{Action: policy.Deny}, closed)
}
