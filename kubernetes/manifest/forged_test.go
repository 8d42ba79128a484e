// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/kubernetes/manifest"
)

// Errors have only printable characters. So names, kinds and fields of an object cannot begin a
// line of a log or move the cursor of a terminal.
func TestErrorsArePrintable(t *testing.T) {
	forged := strconv.QuoteToASCII("web\ntime=now level=INFO msg=well\x1b[2J\u202e")
	for _, text := range []string{
		`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": F}, "spec": {F: 1}}`,
		`{"apiVersion": "v1", "kind": F, "metadata": {"name": F}}`,
		`{"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy", "metadata": {"name": F},
			"spec": {"selector": F, F: 1}}`,
		`{"apiVersion": "projectcalico.org/v3", "kind": "GlobalNetworkPolicy", "metadata": {"name": F},
			"spec": {"selector": F}}`,
	} {
		text = strings.ReplaceAll(text, "F", strings.ReplaceAll(forged, `\x1b`, `\u001b`))
		_, errs := new(manifest.Reader).Decode("a\nb.json", []byte(text))
		require.NotEmpty(t, errs, text)
		for _, err := range errs {
			require.Negative(t, strings.IndexFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) }), "%q",
				err.Error())
		}
	}
}
