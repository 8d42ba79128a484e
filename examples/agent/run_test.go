// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
)

// An agent without rights ends. After one success, it retries instead.
func TestEndIfRefused(t *testing.T) {
	refused := pipeline.State{Err: fmt.Errorf("nft: %w", syscall.EPERM)}

	ctx, cancel := context.WithCancelCause(t.Context())
	see := endIfRefused(cancel)
	see(pipeline.State{})                         // before there is anything to program
	see(pipeline.State{Err: errors.New("other")}) // may be temporary
	require.NoError(t, ctx.Err())
	see(refused)
	require.ErrorIs(t, context.Cause(ctx), syscall.EPERM)
	require.ErrorContains(t, context.Cause(ctx), "needs root")

	ctx, cancel = context.WithCancelCause(t.Context())
	defer cancel(nil)
	see = endIfRefused(cancel)
	see(pipeline.State{Rules: func() *ruleset.Table { return &ruleset.Table{} }})
	see(refused)
	require.NoError(t, ctx.Err())
}

// At each SIGHUP, the settings are read again.
func TestOnHangup(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	received := make(chan os.Signal, 3)
	signal.Notify(received, syscall.SIGHUP)
	defer signal.Stop(received)
	count := 0
	reread := onHangup(ctx, func() []settings.Layer {
		count++
		return []settings.Layer{{Source: strconv.Itoa(count)}}
	})
	for _, want := range []string{"1", "2"} {
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		require.Equal(t, want, (<-reread)[0].Source)
	}
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
	for range 3 { // a signal that arrives without a handler would end the process
		<-received
	}
	cancel() // the last settings are not used
}

// Once the sources are in sync and their state is in the kernel, garbage is collected earlier,
// unless the environment sets GOGC.
func TestSaveMemory(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func(gogc string, states ...pipeline.State) int {
		t.Setenv("GOGC", gogc)
		debug.SetGCPercent(100)
		saved := saveMemory()
		for _, s := range states {
			saved(s)
		}
		return debug.SetGCPercent(100)
	}
	nothing, something := pipeline.State{Events: 1}, pipeline.State{InSync: true}
	require.Equal(t, 100, percent("", nothing, nothing))
	require.Equal(t, steadyGOGC, percent("", nothing, something, something))
	require.Equal(t, 100, percent("100", something))
}
