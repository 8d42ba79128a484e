// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/policy"
)

var updateWire = flag.Bool("update", false, "rewrite the converted clusters")

// TestConvertedClusters tests that the converted clusters in testdata of dataplane/nft are current.
// The tests of that package cannot convert. They send packets in these clusters and compare the
// result with the same matrices.
func TestConvertedClusters(t *testing.T) {
	const file = "../../dataplane/nft/testdata/clusters.jsonl.gz"
	var lines bytes.Buffer
	for _, name := range []string{"testdata/networkpolicy.jsonl.gz", "testdata/clusternetworkpolicy.jsonl.gz"} {
		for _, c := range readClusters(t, name) {
			world := c.world(t)
			var resources []json.RawMessage
			for _, k := range slices.SortedFunc(maps.Keys(world), policy.Key.Compare) {
				data, err := policy.Encode(world[k])
				require.NoError(t, err)
				resources = append(resources, data)
			}
			line, err := json.Marshal(map[string]any{"name": c.Name, "resources": resources})
			require.NoError(t, err)
			lines.Write(append(line, '\n'))
		}
	}
	if *updateWire {
		var zipped bytes.Buffer
		w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		require.NoError(t, err)
		_, err = w.Write(lines.Bytes())
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(file, zipped.Bytes(), 0o644))
	}
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // only read
	unzipped, err := gzip.NewReader(f)
	require.NoError(t, err)
	data, err := io.ReadAll(unzipped)
	require.NoError(t, err)
	require.True(t, bytes.Equal(lines.Bytes(), data),
		"run go test ./convert -update in kubernetes/ and review the differences")
}
