// SPDX-License-Identifier: Apache-2.0

package dptest_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
)

func TestFaultyCallsAndErrors(t *testing.T) {
	m := dptest.NewMirror()
	boom := errors.New("boom")
	f := dptest.NewFaulty(m, func(c dptest.Call) error {
		switch {
		case c.N > 1:
			return nil
		case c.Op == "apply":
			return &dataplane.ApplyError{Backend: "x", Op: "add", Object: endpointKey, Err: boom}
		default:
			return boom
		}
	})
	b := dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}
	require.ErrorIs(t, f.Apply(t.Context(), b), boom)
	require.True(t, m.State().InSync, "an error of one object does not hold up the rest")
	require.ErrorIs(t, f.Resync(t.Context()), boom)
	require.NoError(t, f.Resync(t.Context()))
	require.ErrorIs(t, f.Teardown(t.Context()), boom)
	require.True(t, m.State().InSync)
	require.NoError(t, f.Teardown(t.Context()))
	require.False(t, m.State().InSync)
}

func TestFaultyResyncCatchesUp(t *testing.T) {
	m := dptest.NewMirror()
	var fault error
	f := dptest.NewFaulty(m, func(dptest.Call) error { return fault })
	fault = errors.New("boom")
	require.ErrorIs(t, f.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{&dataplane.InSync{}}}), fault)
	require.ErrorIs(t, f.Resync(t.Context()), fault)
	require.False(t, m.State().InSync)
	fault = &dataplane.ApplyError{Backend: "x", Op: "add", Object: endpointKey, Err: errors.New("boom")}
	require.ErrorIs(t, f.Resync(t.Context()), fault, "of one object")
	require.True(t, m.State().InSync)
}
