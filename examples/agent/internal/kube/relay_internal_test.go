// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// receiver records the updates that it receives.
type receiver struct {
	names    []string
	inSync   bool
	barriers int
	err      error
}

func (r *receiver) Update(_ context.Context, updates []policy.Update) error {
	for _, u := range updates {
		r.names = append(r.names, u.Key.Name)
	}
	return r.err
}

func (r *receiver) InSync(context.Context) error {
	r.inSync = true
	return nil
}

func (r *receiver) Barrier(context.Context) error {
	r.barriers++
	return nil
}

func profile(name string) policy.Update {
	p := &policy.Profile{Name: name}
	return policy.Update{Key: p.Key(), Resource: p}
}

// A pipeline gets all objects and the changes, also after another one has ended or failed. The
// source continues.
func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRelay()
		update := func(name string) { require.NoError(t, r.Update(t.Context(), []policy.Update{profile(name)})) }
		start := func(to *receiver) (stop func() error) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx, to) }()
			synctest.Wait()
			return func() error {
				cancel()
				return <-ended
			}
		}
		update("a")
		first := &receiver{}
		stop := start(first)
		require.Equal(t, []string{"a"}, first.names)
		require.False(t, first.inSync)
		require.NoError(t, r.InSync(t.Context()))
		require.True(t, first.inSync)
		update("b")
		require.Equal(t, []string{"a", "b"}, first.names)
		require.NoError(t, r.Barrier(t.Context()))
		require.Equal(t, 1, first.barriers)
		require.ErrorIs(t, stop(), context.Canceled)

		waited := make(chan error, 1)
		go func() { waited <- r.Barrier(t.Context()) }()
		synctest.Wait()
		require.Empty(t, waited, "no pipeline runs")
		update("c")
		second := &receiver{}
		stop = start(second)
		require.ElementsMatch(t, []string{"a", "b", "c"}, second.names)
		require.True(t, second.inSync)
		require.NoError(t, <-waited)
		second.err = errors.New("it ends")
		update("d")
		require.ErrorIs(t, stop(), second.err)
		update("e")
		require.NotContains(t, second.names, "e")
		require.NoError(t, r.Update(t.Context(), []policy.Update{{Key: profile("a").Key}}))
		third := &receiver{}
		stop = start(third)
		require.ElementsMatch(t, []string{"b", "c", "d", "e"}, third.names)
		require.ErrorIs(t, stop(), context.Canceled)
	})
}
