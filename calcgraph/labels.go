// SPDX-License-Identifier: Apache-2.0

package calcgraph

import (
	"maps"

	"github.com/wayleave/wayleave/policy"
)

// effectiveLabels returns an object's own labels with the label that its namespace
// implies. What it inherits from profiles is the label index's business.
func effectiveLabels(namespace string, own map[string]string) map[string]string {
	if namespace == "" {
		return own
	}
	labels := make(map[string]string, len(own)+1)
	maps.Copy(labels, own)
	labels[policy.LabelNamespace] = namespace
	return labels
}
