// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/internal/packed"
	"github.com/wayleave/wayleave/policy"
)

// ConflictError reports an object that is in several files, or several times in one file. Only one
// copy of the object is used: the one in File. DirConfig.Rejected receives the error together with
// the name of the file whose copy is not used.
type ConflictError struct {
	// Key of the object.
	Key policy.Key
	// File is the name of the file whose copy of the object is used. The name has no directory.
	File string
}

// Error names the object and the file whose copy is used.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("datastore: %s is already in %s", e.Key, printable(e.File))
}

// printable returns the name of a file. If a character of the name is not printable, printable
// quotes the name as a Go string. Without quotes, a name with a newline could begin a new line in a
// log.
func printable(file string) string {
	if strings.ContainsFunc(file, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(file)
	}
	return file
}

// catalog has the objects of each file, and computes the updates for the receiver. It does no I/O.
// There may be hundreds of thousands of objects. Most are endpoints of other nodes, each in one
// file of its own. They are rarely read again, so the catalog keeps them packed.
type catalog struct {
	rejected func(file string, err error)
	files    map[string][]packed.Object // by file; sorted by key, each key once
	// firstFile has, for each object, the first file by name that has it. Its copy is the one in
	// effect.
	firstFile packed.Index[string]
	others    map[policy.Key][]string // the other files that have an object, sorted
	// changed has the keys whose objects may have changed since the last flush, with the object
	// that the receiver has; nil if it has none.
	changed  map[policy.Key]packed.Object
	reported map[policy.Key]map[string]struct{} // reported conflicts: by key, files without effect
}

func newCatalog(rejected func(file string, err error)) *catalog {
	return &catalog{
		rejected: rejected,
		files:    map[string][]packed.Object{},
		others:   map[policy.Key][]string{},
		changed:  map[policy.Key]packed.Object{},
		reported: map[policy.Key]map[string]struct{}{},
	}
}

// set replaces the objects of a file. There are none if the file was removed or cannot be read.
func (c *catalog) set(file string, resources []policy.Resource) {
	content := c.pack(file, resources)
	for _, r := range c.files[file] {
		c.markChanged(r.Key())
	}
	for _, r := range content {
		c.markChanged(r.Key())
	}
	c.remove(file)
	for _, r := range content {
		c.add(file, r.Key())
	}
	if len(content) > 0 {
		c.files[file] = content
	}
}

// pack returns the objects of a file, packed and sorted by key. It reports duplicates.
func (c *catalog) pack(file string, resources []policy.Resource) []packed.Object {
	content := make([]packed.Object, 0, len(resources))
	seen := make(map[policy.Key]struct{}, len(resources))
	for _, r := range resources {
		o := packed.Pack(r)
		if o == nil {
			c.rejected(file, errors.New("datastore: the decoder returned a nil resource"))
			continue
		}
		key := o.Key()
		if _, twice := seen[key]; twice {
			c.rejected(file, &ConflictError{Key: key, File: file})
			continue
		}
		seen[key] = struct{}{}
		content = append(content, o)
	}
	slices.SortFunc(content, func(a, b packed.Object) int { return a.Key().Compare(b.Key()) })
	return content
}

// markChanged records the object that the receiver has. It is called before an object changes.
func (c *catalog) markChanged(key policy.Key) {
	if _, marked := c.changed[key]; !marked {
		c.changed[key] = c.effective(key)
	}
}

// effective returns the object that is used: that of the first file that has the object. It returns
// nil if no file has it.
func (c *catalog) effective(key policy.Key) packed.Object {
	firstFile, _ := c.firstFile.Get(key)
	content := c.files[firstFile]
	at, found := slices.BinarySearchFunc(content, key, func(r packed.Object, key policy.Key) int {
		return r.Key().Compare(key)
	})
	if !found {
		return nil
	}
	return content[at]
}

// add records that a file has an object.
func (c *catalog) add(file string, key policy.Key) {
	first, held := c.firstFile.Get(key)
	if !held {
		c.firstFile.Set(key, file)
		return
	}
	if file < first {
		c.firstFile.Set(key, file)
		file = first
	}
	at, _ := slices.BinarySearch(c.others[key], file)
	c.others[key] = slices.Insert(c.others[key], at, file)
}

func (c *catalog) remove(file string) {
	for _, r := range c.files[file] {
		key := r.Key()
		others := c.others[key]
		firstFile, _ := c.firstFile.Get(key)
		switch {
		case firstFile != file:
			at, _ := slices.BinarySearch(others, file)
			others = slices.Delete(others, at, at+1)
		case len(others) > 0:
			c.firstFile.Set(key, others[0])
			others = slices.Delete(others, 0, 1)
		default:
			c.firstFile.Delete(key)
		}
		if len(others) == 0 {
			delete(c.others, key)
		} else {
			c.others[key] = others
		}
		delete(c.reported[key], file)
	}
	delete(c.files, file)
}

// flush reports new conflicts and returns the updates that the receiver lacks. Both are sorted by
// key. Each slice has at most limit updates. The caller must read the sequence to its end.
func (c *catalog) flush(limit int) iter.Seq[[]policy.Update] {
	return func(yield func([]policy.Update) bool) {
		changed := c.changed
		c.changed = map[policy.Key]packed.Object{} // a new map, because a map does not shrink after the first load
		for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(changed), policy.Key.Compare), limit) {
			var updates []policy.Update
			for _, key := range keys {
				c.reportConflicts(key)
				if now := c.effective(key); !packed.Equal(changed[key], now) {
					updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(now)})
				}
			}
			if len(updates) > 0 && !yield(updates) {
				return
			}
		}
	}
}

// reportConflicts reports each file whose copy of the object has no effect. It reports each file
// only once.
func (c *catalog) reportConflicts(key policy.Key) {
	others := c.others[key]
	if len(others) == 0 {
		delete(c.reported, key)
		return
	}
	reported := map[string]struct{}{}
	for _, file := range others {
		reported[file] = struct{}{}
		if _, before := c.reported[key][file]; !before {
			firstFile, _ := c.firstFile.Get(key)
			c.rejected(file, &ConflictError{Key: key, File: firstFile})
		}
	}
	c.reported[key] = reported
}
