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

// ConflictError tells of an object that is in several files, or several times in one. The
// file that is reported with the error has no say in it.
type ConflictError struct {
	// Key of the object.
	Key policy.Key
	// File whose version counts, without its directory.
	File string
}

// Error names the object and the file whose version counts.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("datastore: %s is already in %s", e.Key, printable(e.File))
}

// printable returns the name of a file as a Go string if a character of it is not printable: it must
// not begin a line of a log.
func printable(file string) string {
	if strings.ContainsFunc(file, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(file)
	}
	return file
}

// catalog knows what is in which file, and works out what to tell the receiver. It does no I/O. Of
// the hundreds of thousands of objects that there may be, most are endpoints of other nodes, in one
// file each and alone in it, and are not looked at again: they are kept packed.
type catalog struct {
	rejected func(file string, err error)
	files    map[string][]packed.Object // in order of their keys, each once
	// the file whose version counts: the first that has the object, in order
	holder  packed.Index[string]
	others  map[policy.Key][]string            // more files that have it, in order
	changed map[policy.Key]packed.Object       // since the last flush: what the receiver knows, nil for nothing
	accused map[policy.Key]map[string]struct{} // conflicts already reported: files that do not count
}

func newCatalog(rejected func(file string, err error)) *catalog {
	return &catalog{
		rejected: rejected,
		files:    map[string][]packed.Object{},
		others:   map[policy.Key][]string{},
		changed:  map[policy.Key]packed.Object{},
		accused:  map[policy.Key]map[string]struct{}{},
	}
}

// set takes in what a file now holds; nothing, where it is gone or cannot be read.
func (c *catalog) set(file string, resources []policy.Resource) {
	content := c.sort(file, resources)
	for _, r := range c.files[file] {
		c.touch(r.Key())
	}
	for _, r := range content {
		c.touch(r.Key())
	}
	c.remove(file)
	for _, r := range content {
		c.hold(file, r.Key())
	}
	if len(content) > 0 {
		c.files[file] = content
	}
}

// sort returns what counts of a file, in order of the keys, and reports the rest.
func (c *catalog) sort(file string, resources []policy.Resource) []packed.Object {
	content := make([]packed.Object, 0, len(resources))
	seen := make(map[policy.Key]struct{}, len(resources))
	for _, r := range resources {
		o := packed.Pack(r)
		if o == nil {
			c.rejected(file, errors.New("datastore: decoded to nothing"))
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

// touch notes, before an object changes, what the receiver knows of it.
func (c *catalog) touch(key policy.Key) {
	if _, touched := c.changed[key]; !touched {
		c.changed[key] = c.counts(key)
	}
}

// counts returns the version of an object that counts; nil if there is none.
func (c *catalog) counts(key policy.Key) packed.Object {
	holder, _ := c.holder.Get(key)
	content := c.files[holder]
	at, found := slices.BinarySearchFunc(content, key, func(r packed.Object, key policy.Key) int {
		return r.Key().Compare(key)
	})
	if !found {
		return nil
	}
	return content[at]
}

// hold notes that a file has an object.
func (c *catalog) hold(file string, key policy.Key) {
	first, held := c.holder.Get(key)
	if !held {
		c.holder.Set(key, file)
		return
	}
	if file < first {
		c.holder.Set(key, file)
		file = first
	}
	at, _ := slices.BinarySearch(c.others[key], file)
	c.others[key] = slices.Insert(c.others[key], at, file)
}

func (c *catalog) remove(file string) {
	for _, r := range c.files[file] {
		key := r.Key()
		others := c.others[key]
		holder, _ := c.holder.Get(key)
		switch {
		case holder != file:
			at, _ := slices.BinarySearch(others, file)
			others = slices.Delete(others, at, at+1)
		case len(others) > 0:
			c.holder.Set(key, others[0])
			others = slices.Delete(others, 0, 1)
		default:
			c.holder.Delete(key)
		}
		if len(others) == 0 {
			delete(c.others, key)
		} else {
			c.others[key] = others
		}
		delete(c.accused[key], file)
	}
	delete(c.files, file)
}

// flush reports new conflicts and returns what the receiver does not know yet, both sorted by key,
// at most so many updates at a time. It must be gone through to its end.
func (c *catalog) flush(most int) iter.Seq[[]policy.Update] {
	return func(yield func([]policy.Update) bool) {
		changed := c.changed
		c.changed = map[policy.Key]packed.Object{} // after the first load it would stay large
		for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(changed), policy.Key.Compare), most) {
			var updates []policy.Update
			for _, key := range keys {
				c.accuse(key)
				if now := c.counts(key); !packed.Equal(changed[key], now) {
					updates = append(updates, policy.Update{Key: key, Resource: packed.Unpack(now)})
				}
			}
			if len(updates) > 0 && !yield(updates) {
				return
			}
		}
	}
}

// accuse reports the files that hold the object without a say in it, unless it did so
// before.
func (c *catalog) accuse(key policy.Key) {
	others := c.others[key]
	if len(others) == 0 {
		delete(c.accused, key)
		return
	}
	accused := map[string]struct{}{}
	for _, file := range others {
		accused[file] = struct{}{}
		if _, before := c.accused[key][file]; !before {
			holder, _ := c.holder.Get(key)
			c.rejected(file, &ConflictError{Key: key, File: holder})
		}
	}
	c.accused[key] = accused
}
