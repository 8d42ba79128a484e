// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// Every field of a rule except its action and metadata has a check. Without the check, the rule
// would match too much.
func TestEveryFieldOfRulesIsChecked(t *testing.T) {
	var filled policy.Rule
	fieldwalk.Fill(reflect.ValueOf(&filled).Elem(), policy.PortRange(80, 90))
	for _, e := range []*policy.EntityRule{&filled.Source, &filled.Destination} {
		e.Selector, e.NotSelector, e.NamespaceSelector = "has(a)", "has(b)", "has(c)"
		e.ServiceAccounts.Selector = "has(d)"
	}
	c := &compiler{}
	fields := 0
	for i, leaf := range fieldwalk.Leaves(reflect.ValueOf(&filled).Elem()) {
		var rule policy.Rule
		fieldwalk.Leaves(reflect.ValueOf(&rule).Elem())[i].Value.Set(leaf.Value)
		checks, err := c.rule("", &rule)
		require.NoError(t, err, leaf.Path)
		free := leaf.Path == ".Action" || strings.HasPrefix(leaf.Path, ".Metadata")
		require.Equal(t, !free, len(checks) > 0, leaf.Path)
		fields++
	}
	require.Greater(t, fields, 20)
}
