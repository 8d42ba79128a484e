// SPDX-License-Identifier: Apache-2.0

package calico_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/convert/calico"
)

// An unsupported field is set if its value is neither null nor false.
func TestUnsupported(t *testing.T) {
	for text, want := range map[string]calico.Unsupported{
		`null`: false, `false`: false, `true`: true, `{}`: true, `[]`: true, `""`: true, `0`: true,
	} {
		var got struct{ Field calico.Unsupported }
		require.NoError(t, json.Unmarshal([]byte(`{"Field": `+text+`}`), &got))
		require.Equal(t, want, got.Field, text)
	}
}
