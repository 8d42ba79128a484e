// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
)

// endingPlane is a dataplane that ends denied connections.
type endingPlane struct {
	*nft.Dataplane
	// done gets a value when no sweep is pending.
	done <-chan struct{}
}

// ender returns a dataplane for a node that ends denied connections.
func ender(t *testing.T, ns *netns.NS, classes render.ClassesConfig, cfg conntrack.Config) endingPlane {
	t.Helper()
	return openEnding(t, ns, ending(classes, cfg))
}

// openEnding opens a dataplane that ends denied connections, with a logger of its own.
func openEnding(t *testing.T, ns *netns.NS, cfg nft.Config) endingPlane {
	t.Helper()
	logger, done := eventLogger("no sweep is pending")
	cfg.Conntrack.Logger = logger
	return endingPlane{openWith(t, ns, cfg), done}
}

// ending is the configuration of a dataplane that ends connections.
func ending(classes render.ClassesConfig, cfg conntrack.Config) nft.Config {
	return nft.Config{
		Renderer:        render.Config{TCPFromSYN: true, Classes: classes},
		ConntrackPolicy: conntrack.End, Conntrack: cfg,
	}
}

// swept waits until no sweep is pending.
func swept(t *testing.T, d endingPlane) nft.ConntrackStats {
	t.Helper()
	for timeout := time.After(waitTimeout); d.ConntrackStats().Pending > 0; {
		select {
		case <-d.done:
		case <-timeout:
			require.Fail(t, "a sweep is pending")
		}
	}
	return d.ConntrackStats()
}
