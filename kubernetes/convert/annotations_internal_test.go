// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The command of the migration page removes all of Calico's annotations about tunnels and WireGuard
// that Node reads.
func TestMigrationRemovesAnnotations(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrate-felix.md")
	require.NoError(t, err)
	for _, f := range tunnelFields() {
		if f.annotation != AnnotationWireguardKeys {
			require.True(t, strings.Contains(string(page), " "+f.annotation+"-"), "the command keeps %s", f.annotation)
		}
	}
}
