// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Origins does not read large folders.
func TestOriginsOfLargeFolder(t *testing.T) {
	p := &Pipeline{cfg: Config{Manifests: t.TempDir()}}
	policy := `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: n, name: p},
  spec: {podSelector: {}, ingress: [{}]}}`
	require.NoError(t, os.WriteFile(filepath.Join(p.cfg.Manifests, "p.yaml"), []byte(policy), 0o600))
	require.Len(t, p.Origins().Rules, 1)
	require.Len(t, p.Origins().Policies, 1)
	large := "# " + strings.Repeat("x", 1<<20)
	require.NoError(t, os.WriteFile(filepath.Join(p.cfg.Manifests, "q.yaml"), []byte(large), 0o600))
	require.Empty(t, p.Origins())
}
