// SPDX-License-Identifier: Apache-2.0

package daemon_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
)

// Whoever waits in vain is told why.
func TestWaitInVain(t *testing.T) {
	node, dir := shop(t)
	write(t, dir, "more.yaml", pod("late", "10.0.0.3")+strings.ReplaceAll(pod("away", "10.0.0.4"), "nodeName: n", "nodeName: another"))
	state := t.TempDir()
	r := start(t, node, dir, state)
	r.until(t, func(s pipeline.State) bool { return s.Err != nil && s.Events > 0 }) // late has no interface
	for endpoint, want := range map[string]string{
		"shop/nobody": "shop/nobody is not programmed after 10ms: no source has such an endpoint",
		"shop/away":   "shop/away: pipeline: the endpoint is another node's",
		"shop/late":   "no such interface",
	} {
		_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms", api.Wait{Endpoint: endpoint})
		require.ErrorContains(t, err, want)
	}
	_, err := api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=x", api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "timeout")
	r.end(t)

	r, _ = startLate(t, node, dir, state)
	_, err = api.Send[struct{}](t.Context(), r.Client, http.MethodPost, "/v1/wait?timeout=10ms", api.Wait{Endpoint: "shop/web"})
	require.ErrorContains(t, err, "late has not been read to its end")
	r.end(t)
}
