// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/health"
)

func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy, done := false, uint64(0)
		c := health.New(health.Config{Timeout: 10 * time.Second, Components: []health.Component{
			{Name: "idle"}, {Name: "driver", Progress: func() (bool, uint64) { return busy, done }},
		}})
		require.True(t, c.CheckLive().OK)
		time.Sleep(time.Hour)
		require.True(t, c.CheckLive().OK, "there is nothing to do")
		busy = true
		time.Sleep(9 * time.Second)
		require.True(t, c.CheckLive().OK)
		time.Sleep(2 * time.Second)
		require.Equal(t, health.Report{Components: []health.Result{
			{Name: "idle", OK: true}, {Name: "driver", Detail: "has made no progress for 11s"},
		}}, c.CheckLive())
		require.False(t, c.CheckReady().OK)
		done++
		require.True(t, c.CheckLive().OK)
		for range 10 { // always busy, and making progress
			time.Sleep(9 * time.Second)
			done++
			require.True(t, c.CheckLive().OK)
		}
	})
}

// Run detects a stuck part although no request compares its progress.
func TestStuckPartIsDetectedWithoutRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := health.New(health.Config{Timeout: 10 * time.Second, Components: []health.Component{
			{Name: "driver", Progress: func() (bool, uint64) { return true, 7 }},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Minute)
		require.False(t, c.CheckLive().OK)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestServe(t *testing.T) {
	why := "nothing is in the kernel yet"
	c := health.New(health.Config{Timeout: time.Hour, Components: []health.Component{
		{Name: "driver", Ready: func() string { return why }, Note: func() string { return "by the way" }},
	}})
	get := func(h http.Handler) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		return w.Code, w.Body.String()
	}
	code, body := get(c.Ready())
	require.Equal(t, 503, code)
	require.JSONEq(t,
		`{"ok":false,"components":[{"name":"driver","ok":false,"detail":"nothing is in the kernel yet"}]}`, body)
	code, body = get(c.Live())
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"ok":true,"components":[{"name":"driver","ok":true}]}`, body)
	why = ""
	code, body = get(c.Ready())
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"ok":true,"components":[{"name":"driver","ok":true,"note":"by the way"}]}`, body)

	// A note is reported, and has no effect on the status.
	c = health.New(health.Config{Timeout: time.Hour, Components: []health.Component{
		{Name: "recording", Note: func() string { return "has ended" }},
	}})
	code, body = get(c.Ready())
	require.Equal(t, 200, code)
	require.JSONEq(t, `{"ok":true,"components":[{"name":"recording","ok":true,"note":"has ended"}]}`, body)
}
