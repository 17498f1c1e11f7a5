"""The pictures of a page: where everything lies, in percent of the drawing, so that they fit any width."""
