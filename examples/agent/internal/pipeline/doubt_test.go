// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/policy"
)

// S167: the pipeline lists a policy with a rule in doubt, with its doubts, until it has none. The
// policy is not absent.
func TestDoubts(t *testing.T) {
	source := &datastore.Memory{}
	p := &policy.Policy{Name: "p", Ingress: []policy.Rule{{Action: policy.Deny, IPVersion: 5}}}
	set := func(r policy.Resource) {
		t.Helper()
		require.NoError(t, source.Update(t.Context(), []policy.Update{{Key: p.Key(), Resource: r}}))
	}
	set(p)
	doubted := make(chan *policy.DoubtError, 10)
	pl, r := startSources(t, func(c *pipeline.Config) {
		c.Sources = []datastore.NamedSource{{Name: "first", Source: source}}
		c.Doubted = func(_ policy.Key, doubt *policy.DoubtError) { doubted <- doubt }
	})
	require.NoError(t, pl.WaitApplied(t.Context()))
	require.ErrorContains(t, <-doubted, "ingress[0].ipVersion: ")
	require.ErrorContains(t, pl.Doubts()[p.Key()], "ingress[0].ipVersion: ")
	require.Len(t, pl.DoubtsOf("first"), 1)
	require.Empty(t, pl.DoubtsOf("second"))
	require.Empty(t, pl.Absent("first"))
	set(nil)
	require.Nil(t, <-doubted)
	require.Empty(t, pl.Doubts())
	r.stop()
	require.NoError(t, <-r.ended)
}
