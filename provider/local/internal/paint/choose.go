package paint

import (
	"strings"
	"unicode"
)

// hint is what a word of the prompt asks for; "" leaves it open.
type hint struct{ style, palette string }

// hints are words that say what a picture should look like. A word counts in
// the plural too. The first style and the first palette that the prompt names
// win; the rest is the hash's to choose.
var hints = map[string]hint{
	"desert": {"dunes", "saffron"}, "dune": {"dunes", "saffron"}, "sand": {"dunes", "saffron"}, "caravan": {"dunes", ""},
	"sunset": {"", "ember"}, "dusk": {"", "violet"}, "fire": {"", "ember"}, "ember": {"", "ember"}, "lava": {"ink", "ember"},
	"evening": {"", "violet"}, "autumn": {"", "saffron"}, "summer": {"", "saffron"}, "golden": {"", "saffron"}, "dawn": {"", "blossom"},
	"sea": {"sea", "tide"}, "ocean": {"sea", "tide"}, "harbour": {"sea", "tide"}, "harbor": {"sea", "tide"}, "boat": {"sea", ""},
	"sail": {"sea", ""}, "coast": {"sea", "tide"}, "wave": {"sea", "tide"}, "lighthouse": {"sea", "ember"}, "island": {"sea", "tide"},
	"rain": {"watercolor", "tide"}, "water": {"", "tide"}, "river": {"ink", "tide"}, "wind": {"ink", ""}, "storm": {"ink", "frost"},
	"forest": {"botanical", "moss"}, "garden": {"botanical", "moss"}, "fern": {"botanical", "moss"}, "leaf": {"botanical", "moss"},
	"leaves": {"botanical", "moss"}, "tree": {"botanical", "moss"}, "flower": {"botanical", "blossom"}, "herb": {"botanical", "moss"},
	"plant": {"botanical", "moss"}, "meadow": {"botanical", "moss"}, "wood": {"botanical", "moss"}, "blossom": {"", "blossom"},
	"spring": {"", "blossom"}, "cherry": {"", "blossom"}, "rose": {"", "blossom"}, "night": {"aurora", "midnight"},
	"star": {"aurora", "midnight"}, "aurora": {"aurora", "midnight"}, "moon": {"", "midnight"}, "moonrise": {"", "midnight"},
	"moonlight": {"", "midnight"}, "wheat": {"", "saffron"}, "field": {"", "saffron"}, "northern": {"aurora", "midnight"},
	"winter": {"", "frost"}, "snow": {"", "frost"}, "ice": {"", "frost"}, "glacier": {"contours", "frost"},
	"city": {"city", "violet"}, "skyline": {"city", "violet"}, "street": {"city", "violet"}, "tower": {"city", ""}, "town": {"city", ""},
	"neon": {"city", "violet"}, "mountain": {"contours", ""}, "map": {"contours", ""}, "valley": {"contours", "moss"},
	"terrain": {"contours", "moss"}, "hill": {"contours", "moss"}, "window": {"glass", ""}, "glass": {"glass", ""},
	"cathedral": {"glass", ""}, "chapel": {"glass", ""}, "mosaic": {"glass", ""}, "music": {"ink", ""}, "dance": {"ink", ""},
	"smoke": {"ink", ""}, "bubble": {"watercolor", ""}, "watercolour": {"watercolor", ""},
	"watercolor": {"watercolor", ""}, "memory": {"watercolor", ""}, "dream": {"watercolor", ""},
}

// suggested reads the prompt for hints.
func suggested(prompt string) hint {
	var found hint
	words := strings.FieldsFunc(strings.ToLower(prompt), func(r rune) bool {
		return !unicode.IsLetter(r) && r != '-'
	})
	for _, w := range words {
		h, ok := hints[w]
		if !ok {
			h = hints[strings.TrimSuffix(w, "s")]
		}
		if found.style == "" {
			found.style = h.style
		}
		if found.palette == "" {
			found.palette = h.palette
		}
		if found.style != "" && found.palette != "" {
			break
		}
	}
	return found
}

// choose settles style and palette: what was asked for, else what the prompt
// hints at, else what its hash says.
func choose(prompt, style string, hash uint64) (manner, palette) {
	h := suggested(prompt)
	if style == "" {
		style = h.style
	}
	s := styles[hash%uint64(len(styles))]
	for _, candidate := range styles {
		if candidate.name == style {
			s = candidate
		}
	}
	name := h.palette
	if s.palette != "" && name == "" {
		name = s.palette
	}
	p := palettes[hash>>32%uint64(len(palettes))]
	for _, candidate := range palettes {
		if candidate.name == name {
			p = candidate
		}
	}
	return s, p
}
