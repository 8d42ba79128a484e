// SPDX-License-Identifier: Apache-2.0

package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/wayleave/wayleave/kubernetes/manifest"
	"github.com/wayleave/wayleave/policy"
)

// doubtLines has the lines of manifests that doubts come from. A doubt is a field of a policy's
// rule that is not understood. The policy is enforced nevertheless, and is not reported as
// rejected: the log has one message for it, with the lines.
//
// A doubtLines is safe for concurrent use.
type doubtLines struct {
	mu sync.Mutex
	of map[policy.Key]map[policy.Problem]string
}

// record records the lines of doubts in a file, and returns the problems that are not doubts.
func (l *doubtLines) record(resources []policy.Resource, problems []error) (others []error) {
	var doubted []*policy.Policy
	found := map[policy.Key]map[policy.Problem]string{}
	for _, r := range resources {
		if r, ok := r.(*policy.Policy); ok && r.Doubts() != nil {
			doubted, found[r.Key()] = append(doubted, r), map[policy.Problem]string{}
		}
	}
	for _, problem := range problems {
		var at *manifest.Error
		ofDoubt := func(r *policy.Policy) bool { return isDoubt(r, at, found[r.Key()]) }
		if !errors.As(problem, &at) || !slices.ContainsFunc(doubted, ofDoubt) {
			others = append(others, problem)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[policy.Key]map[policy.Problem]string{}
	}
	maps.Copy(l.of, found)
	return others
}

// isDoubt reports whether a problem of a file is a doubt of the policy, and records its line.
func isDoubt(r *policy.Policy, at *manifest.Error, found map[policy.Problem]string) bool {
	if o := at.Object; o.Namespace != "" && o.Namespace != r.Namespace || !strings.HasSuffix(r.Name, o.Name) {
		return false
	}
	for _, doubt := range r.Doubts().Problems {
		if found[doubt] == "" && strings.HasSuffix(at.Field, doubt.Field) && at.Err.Error() == doubt.Msg {
			found[doubt] = fmt.Sprintf("%s line %d", at.File, at.Line)
			return true
		}
	}
	return false
}

// take returns the known lines of a policy's doubts. If the policy has no doubts any more, it
// forgets its lines.
func (l *doubtLines) take(key policy.Key, doubt *policy.DoubtError) (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if doubt == nil {
		delete(l.of, key)
		return nil
	}
	for _, problem := range doubt.Problems {
		if at := l.of[key][problem]; at != "" {
			list = append(list, at)
		}
	}
	return list
}
