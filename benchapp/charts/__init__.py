"""What pages, answers and images of a chart share: texts, images."""
