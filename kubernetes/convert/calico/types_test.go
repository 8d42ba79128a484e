// SPDX-License-Identifier: Apache-2.0

package calico_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
)

// A field that is not supported counts as given with any value that could mean something.
func TestUnsupported(t *testing.T) {
	for text, want := range map[string]calico.Unsupported{
		`null`: false, `false`: false, `true`: true, `{}`: true, `[]`: true, `""`: true, `0`: true,
	} {
		var got struct{ Field calico.Unsupported }
		require.NoError(t, json.Unmarshal([]byte(`{"Field": `+text+`}`), &got))
		require.Equal(t, want, got.Field, text)
	}
}
