// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
)

// RuleIDs returns an identifier for each of the rules that owner has for a direction: 24
// letters and digits. An ID depends on the owner, the direction, the rule's own content without its metadata, and how
// many equal rules stand before it. So an edit of one rule leaves the IDs of the others,
// and with them their counters, alone.
func RuleIDs(owner Key, dir Type, rules []Rule) []string {
	ids := make([]string, len(rules))
	before := map[string]int{}
	for i, r := range rules {
		r.Metadata = nil
		content, _ := json.Marshal(r) // no field of a rule can fail
		same := before[string(content)]
		before[string(content)]++
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %s", owner.String(), dir.canonical(), same, content))
		ids[i] = strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
	}
	return ids
}
