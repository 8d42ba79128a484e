// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// An interface without the prefix is logged once: no rule drops its packets after its endpoint is
// removed.
func TestInterfaceWithoutPrefixIsLogged(t *testing.T) {
	for prefix, warnings := range map[string]int{"": 0, "way": 0, "cali": 1} {
		node, dir, out := nstest.New(t), t.TempDir(), &log{}
		write(t, dir, "pods.yaml", namespace+"---"+pod("web", "10.0.0.1")+"---"+pod("cart", "10.0.0.2"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err := pipeline.Run(ctx, pipeline.Config{
			Manifests: dir, Node: "n", NetNS: node.FD(), InterfacePrefix: prefix,
			Logger: slog.New(slog.NewTextHandler(out, nil)),
			Programmed: func(s pipeline.State) {
				if s.InSync {
					cancel()
				}
			},
		})
		cancel()
		require.NoError(t, err)
		text := out.String()
		require.Equal(t, warnings, strings.Count(text, "does not begin with interface-prefix"), "%s:\n%s", prefix, text)
		if warnings > 0 {
			require.Regexp(t, "object=WorkloadEndpoint/shop/(web|cart) interface=way[0-9a-f]+ prefix=cali", text)
		}
	}
}
